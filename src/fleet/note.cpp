#include "fleet/note.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/bytes.h"

namespace leeway {
namespace {

constexpr int kDepthMax = 16;  // what is deeper cannot be copied without a deep stack
constexpr uint64_t kFactsMax = uint64_t{16} << 20;

int depth_of(std::string_view json) {
  int depth = 0;
  int deepest = 0;
  bool in_text = false;
  for (size_t at = 0; at < json.size(); ++at) {
    if (in_text && json[at] == '\\') {
      ++at;
    } else if (json[at] == '"') {
      in_text = !in_text;
    } else if (!in_text && (json[at] == '[' || json[at] == '{')) {
      deepest = std::max(deepest, ++depth);
    } else if (!in_text && (json[at] == ']' || json[at] == '}')) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

bool is_whole(const nlohmann::json& json) {
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (json.is_number_unsigned()) return json.get<uint64_t>() <= kLargest;
  return json.is_number_integer();
}

Result<int64_t> Note::whole(const char* name) const {
  const auto found = facts_.find(name);
  if (found == facts_.end() || !is_whole(*found)) {
    return Error{fmt::format("a note of another process has no number \"{}\"", name)};
  }
  return found->get<int64_t>();
}

bool Note::has(const char* name, bool (nlohmann::json::*type)() const) const {
  const auto found = facts_.find(name);
  return found != facts_.end() && (found.value().*type)();
}

Result<std::string> Note::text(const char* name) const {
  const auto found = facts_.find(name);
  if (found == facts_.end() || !found->is_string()) {
    return Error{fmt::format("a note of another process has no text \"{}\"", name)};
  }
  return found->get<std::string>();
}

std::vector<std::byte> to_bytes(const Note& note) {
  ByteWriter writer;
  writer.put(static_cast<int64_t>(note.kind()));
  // Names of files and hosts may be any bytes.
  writer.put_text(note.facts().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  writer.put_bytes(note.body());
  return writer.take();
}

Result<Note> note_from(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto kind = reader.take<int64_t>();
  if (kind < 0 || kind >= kNoteKinds) return Error{"a note of an unknown kind"};
  const auto size = reader.take<uint64_t>();
  if (size > kFactsMax) return Error{"a note that is too long"};
  const std::span<const std::byte> text = reader.take_bytes(size);
  if (!reader.ok()) return Error{"a note that is shorter than it says"};
  const auto* const begin = reinterpret_cast<const char*>(text.data());
  if (depth_of({begin, text.size()}) > kDepthMax) return Error{"a note that is nested too deeply"};
  Note note(static_cast<NoteKind>(kind));
  note.facts() = nlohmann::json::parse(begin, begin + text.size(), nullptr,
                                       /*allow_exceptions=*/false);
  if (!note.facts().is_object()) return Error{"a note that is not JSON"};
  const std::span<const std::byte> rest = reader.take_bytes(reader.left());
  note.body().assign(rest.begin(), rest.end());
  return note;
}

}  // namespace leeway
