#include "fleet/kept_session.h"

#include <span>
#include <string_view>
#include <system_error>
#include <utility>

namespace leeway {
namespace {

Path kept_file(const Path& run_folder) { return run_folder / "fleet.session"; }

Result<KeptSession> kept_from(const Note& note) {
  using Json = nlohmann::json;
  KeptSession kept;
  LEEWAY_ASSIGN(kept.order, session_order_from(note));
  const Json& facts = note.facts();
  const bool sound = note.has("began", static_cast<bool (Json::*)() const>(&Json::is_number)) &&
                     note.has("times", &Json::is_array) && note.has("trained", &Json::is_array);
  if (!sound) return Error{"a kept session is damaged"};
  kept.began = facts["began"].get<double>();
  for (const Json& times : facts["times"]) {
    if (!is_whole(times)) return Error{"a kept session is damaged"};
    kept.times.push_back(times.get<int64_t>());
  }
  for (const Json& process : facts["trained"]) {
    const bool named =
        process.is_array() && process.size() == 2 && is_whole(process[0]) && process[1].is_string();
    if (!named) return Error{"a kept session is damaged"};
    kept.trained[{process[0].get<int64_t>()}] = process[1].get<std::string>();
  }
  LEEWAY_ASSIGN(const std::string counters, note.text("before"));
  LEEWAY_ASSIGN(kept.before, counters_from(counters));
  LEEWAY_ASSIGN(kept.address, note.text("address"));
  return kept;
}

}  // namespace

Status keep_session(const Path& run_folder, const KeptSession& kept) {
  Note note = to_note(kept.order);
  nlohmann::json trained = nlohmann::json::array();
  for (const auto& [process, name] : kept.trained) trained.push_back({process.value, name});
  note.add("began", kept.began)
      .add("times", kept.times)
      .add("trained", std::move(trained))
      .add("before", counters_text(kept.before))
      .add("address", kept.address);
  const std::vector<std::byte> bytes = to_bytes(note);
  return write_atomically(
      kept_file(run_folder),
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::optional<KeptSession> kept_session(const Path& run_folder) {
  const Result<std::string> text = read_text(kept_file(run_folder));
  if (!text.ok()) return std::nullopt;
  const Result<Note> note = note_from(std::as_bytes(std::span(*text)));
  if (!note.ok() || note->kind() != NoteKind::kSession) return std::nullopt;
  Result<KeptSession> kept = kept_from(*note);
  return kept.ok() ? std::optional(std::move(*kept)) : std::nullopt;
}

void drop_kept_session(const Path& run_folder) {
  std::error_code ignored;  // there may be none
  std::filesystem::remove(kept_file(run_folder), ignored);
}

}  // namespace leeway
