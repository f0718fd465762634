// Random notes, directories and orders come back as they were; damaged ones are errors or values.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "fleet/session_order.h"

namespace leeway {
namespace {

Place any_place() {
  return {.worker = {.replica = {*rc::gen::inRange<int64_t>(0, 64)},
                     .stage = {*rc::gen::inRange<int64_t>(0, 64)}},
          .incarnation = *rc::gen::inRange<int64_t>(0, 100)};
}

std::vector<Place> any_places() {
  std::vector<Place> places;
  for (int left = *rc::gen::inRange(0, 4); left > 0; --left) places.push_back(any_place());
  return places;
}

// Letters of any kind, as JSON can hold them.
std::string any_word() { return *rc::gen::container<std::string>(rc::gen::inRange('\1', '\x7f')); }

Directory any_directory() {
  Directory directory = {.number = *rc::gen::arbitrary<int64_t>(), .members = {}};
  for (int left = *rc::gen::inRange(0, 5); left > 0; --left) {
    directory.members.push_back({.id = {*rc::gen::arbitrary<int64_t>()},
                                 .name = any_word(),
                                 .address = any_word(),
                                 .key = any_word(),
                                 .places = any_places()});
  }
  return directory;
}

std::vector<ChunkPosition> any_chunks() {
  std::vector<ChunkPosition> chunks(*rc::gen::inRange<size_t>(0, 3));
  for (ChunkPosition& chunk : chunks) {
    chunk.values = *rc::gen::inRange<int64_t>(0, 1 << 20);
    chunk.chain = *rc::gen::arbitrary<uint64_t>();
    for (int left = *rc::gen::inRange(0, 3); left > 0; --left) {
      chunk.count({.replica = {*rc::gen::inRange<int64_t>(0, 8)},
                   .number = *rc::gen::inRange<int64_t>(1, 1000)});
    }
  }
  return chunks;
}

SessionOrder any_order() {
  SessionOrder order = {.number = *rc::gen::arbitrary<int64_t>(),
                        .seconds = *rc::gen::inRange<int>(0, 1 << 20) / 8.0,
                        .shift = *rc::gen::arbitrary<int64_t>(),
                        .evaluates_first = *rc::gen::arbitrary<bool>(),
                        .has_state = *rc::gen::arbitrary<bool>(),
                        .first_update = *rc::gen::arbitrary<int64_t>(),
                        .last_update = *rc::gen::arbitrary<int64_t>(),
                        .run = *rc::gen::arbitrary<uint64_t>(),
                        .recipe = *rc::gen::arbitrary<uint64_t>(),
                        .timeline = *rc::gen::arbitrary<uint64_t>(),
                        .places = any_places(),
                        .directory = any_directory()};
  order.starts.resize(*rc::gen::inRange<size_t>(0, 4));
  for (ReplicaStart& start : order.starts) {
    start.update = *rc::gen::arbitrary<int64_t>();
    start.rounds = *rc::gen::arbitrary<std::vector<std::vector<int64_t>>>();
    start.chunks.resize(*rc::gen::inRange<size_t>(0, 3));
    for (auto& chunks : start.chunks) chunks = any_chunks();
  }
  return order;
}

RC_GTEST_PROP(Directory, ComesBackAsItWas, ()) {
  const Directory directory = any_directory();
  const Result<Directory> back = directory_from(to_json(directory));
  RC_ASSERT(back.ok());
  RC_ASSERT(to_json(*back) == to_json(directory));
}

RC_GTEST_PROP(SessionOrder, ComesBackAsItWas, ()) {
  const SessionOrder order = any_order();
  const Result<Note> note = note_from(to_bytes(to_note(order)));
  RC_ASSERT(note.ok());
  const Result<SessionOrder> back = session_order_from(*note);
  RC_ASSERT(back.ok());
  RC_ASSERT(to_bytes(to_note(*back)) == to_bytes(to_note(order)));
}

RC_GTEST_PROP(SessionOrder, IsAnErrorOrAValueWhenItIsDamaged, ()) {
  std::vector<std::byte> bytes = to_bytes(to_note(any_order()));
  for (int left = *rc::gen::inRange(1, 4); left > 0; --left) {
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] =
        static_cast<std::byte>(*rc::gen::arbitrary<uint8_t>());
  }
  if (*rc::gen::arbitrary<bool>()) bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size()));
  const Result<Note> note = note_from(bytes);
  if (!note.ok()) return;
  RC_ASSERT(note_from(to_bytes(*note)).ok());
  const Result<SessionOrder> order = session_order_from(*note);
  if (order.ok()) RC_ASSERT(session_order_from(to_note(*order)).ok());
}

}  // namespace
}  // namespace leeway
