#include "fleet/session_order.h"

#include <limits>
#include <utility>

#include "base/bytes.h"
#include "worker/report.h"

namespace leeway {
namespace {

void write_starts(ByteWriter& writer, const std::vector<ReplicaStart>& starts) {
  writer.put(starts.size());
  for (const ReplicaStart& start : starts) {
    writer.put(start.update);
    writer.put(start.rounds.size());
    for (const std::vector<int64_t>& lanes : start.rounds) {
      writer.put(lanes.size());
      for (const int64_t round : lanes) writer.put(round);
    }
    writer.put(start.chunks.size());
    for (const std::vector<ChunkPosition>& chunks : start.chunks) write_positions(writer, chunks);
  }
}

// A number of things that follow, each of which takes at least eight bytes: memory for more would
// be taken on the word of whoever sent it. With one that cannot be, the reader fails.
size_t take_count(ByteReader& reader) {
  const auto count = reader.take<size_t>();
  if (count <= reader.left() / sizeof(int64_t)) return count;
  reader.take_bytes(std::numeric_limits<size_t>::max());
  return 0;
}

Result<std::vector<ReplicaStart>> read_starts(ByteReader& reader) {
  std::vector<ReplicaStart> starts(take_count(reader));
  for (ReplicaStart& start : starts) {
    start.update = reader.take<int64_t>();
    start.rounds.resize(take_count(reader));
    for (std::vector<int64_t>& lanes : start.rounds) {
      lanes.resize(take_count(reader));
      for (int64_t& round : lanes) round = reader.take<int64_t>();
    }
    start.chunks.resize(take_count(reader));
    for (std::vector<ChunkPosition>& chunks : start.chunks) {
      LEEWAY_ASSIGN(chunks, read_positions(reader));
    }
    if (!reader.ok()) break;
  }
  if (!reader.ok() || reader.left() > 0) return Error{"an order to begin a session is damaged"};
  return starts;
}

}  // namespace

Note to_note(const SessionOrder& order) {
  Note note(NoteKind::kSession);
  // The own places are those that the directory has for it; sent apart, so that a process that is
  // new knows who it is.
  const Directory own = {.number = 0, .members = {{.id = {}, .places = order.places}}};
  note.add("session", order.number)
      .add("logged", order.logged)
      .add("seconds", order.seconds)
      .add("shift", order.shift)
      .add("evaluates_first", order.evaluates_first)
      .add("has_state", order.has_state)
      .add("first_update", order.first_update)
      .add("last_update", order.last_update)
      .add("run", order.run)
      .add("recipe", order.recipe)
      .add("timeline", order.timeline)
      .add("own", to_json(own))
      .add("directory", to_json(order.directory));
  ByteWriter writer;
  write_starts(writer, order.starts);
  note.body() = writer.take();
  return note;
}

Result<SessionOrder> session_order_from(const Note& note) {
  using Json = nlohmann::json;
  const bool sound =
      note.has("seconds", static_cast<bool (Json::*)() const>(&Json::is_number)) &&
      note.has("evaluates_first", &Json::is_boolean) && note.has("has_state", &Json::is_boolean) &&
      note.has("run", &Json::is_number_unsigned) && note.has("recipe", &Json::is_number_unsigned) &&
      note.has("timeline", &Json::is_number_unsigned) && note.has("own", &Json::is_object) &&
      note.has("directory", &Json::is_object);
  if (!sound) return Error{"an order to begin a session is damaged"};
  SessionOrder order = {.seconds = note.facts()["seconds"].get<double>(),
                        .evaluates_first = note.facts()["evaluates_first"].get<bool>(),
                        .has_state = note.facts()["has_state"].get<bool>(),
                        .run = note.facts()["run"].get<uint64_t>(),
                        .recipe = note.facts()["recipe"].get<uint64_t>(),
                        .timeline = note.facts()["timeline"].get<uint64_t>()};
  LEEWAY_ASSIGN(order.number, note.whole("session"));
  LEEWAY_ASSIGN(order.logged, note.whole("logged"));
  LEEWAY_ASSIGN(order.shift, note.whole("shift"));
  LEEWAY_ASSIGN(order.first_update, note.whole("first_update"));
  LEEWAY_ASSIGN(order.last_update, note.whole("last_update"));
  LEEWAY_ASSIGN(const Directory own, directory_from(note.facts()["own"]));
  if (own.members.size() != 1) return Error{"an order to begin a session is damaged"};
  order.places = own.members.front().places;
  LEEWAY_ASSIGN(order.directory, directory_from(note.facts()["directory"]));
  ByteReader reader(note.body());
  LEEWAY_ASSIGN(order.starts, read_starts(reader));
  return order;
}

}  // namespace leeway
