// Hand-made work for report tests.
#pragma once

#include <utility>
#include <vector>

#include "../../support/work_history.h"

namespace leeway {

struct Piece {
  WorkKind kind = WorkKind::kForward;
  int64_t stage = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t microbatch = 0;  // or batch, or round
  int64_t update = 1;
  int64_t delay = 0;
  int64_t bytes = 0;
  int64_t replica = 0;
  Lane lane = Lane::kMain;
  int64_t chunk = 0;
  std::vector<int64_t> replicas = {};
};

inline Event event_of(const Piece& piece) {
  WorkRecord record;
  record.worker = {.replica = {piece.replica}, .stage = {piece.stage}};
  record.work = {.kind = piece.kind,
                 .index = piece.microbatch,
                 .update = piece.update,
                 .version = piece.update - 1 - piece.delay,
                 .delay = piece.delay,
                 .lane = piece.lane,
                 .chunk = piece.chunk};
  for (const int64_t replica : piece.replicas) record.work.replicas.add({replica});
  if (record.work.version < 0) record.work.version = 0;
  record.times = {Nanos{piece.begin}, Nanos{piece.end}};
  record.bytes_sent = piece.bytes;
  return to_event(record);
}

inline WorkHistory history_of(const std::vector<Piece>& pieces) {
  std::vector<Event> events;
  for (const Piece& piece : pieces) events.push_back(event_of(piece));
  return work_history(events);
}

// Two stages, two microbatches, K = 2, a forward of 10 and a backward of 20 nanoseconds:
//
//   time     0    10   20   30   40   50   60   70   80
//   stage 0  [F0 ][F1 ]          [B0      ][B1      ][U]
//   stage 1       [F0 ][B0      ][F1 ][B1      ][U]
inline std::vector<Piece> two_stages() {
  using enum WorkKind;
  return {
      {.kind = kForward, .stage = 0, .begin = 0, .end = 10, .microbatch = 0, .bytes = 100},
      {.kind = kForward, .stage = 0, .begin = 10, .end = 20, .microbatch = 1, .bytes = 100},
      {.kind = kForward, .stage = 1, .begin = 10, .end = 20, .microbatch = 0},
      {.kind = kBackward, .stage = 1, .begin = 20, .end = 40, .microbatch = 0, .bytes = 50},
      {.kind = kForward, .stage = 1, .begin = 40, .end = 50, .microbatch = 1},
      {.kind = kBackward, .stage = 0, .begin = 40, .end = 60, .microbatch = 0},
      {.kind = kBackward, .stage = 1, .begin = 50, .end = 70, .microbatch = 1, .bytes = 50},
      {.kind = kUpdate, .stage = 1, .begin = 70, .end = 75},
      {.kind = kBackward, .stage = 0, .begin = 70, .end = 90, .microbatch = 1},
      {.kind = kUpdate, .stage = 0, .begin = 90, .end = 95},
  };
}

// The same, and after its update stage 0 takes part in round 7 with replica 2 and merges chunk 1 of
// round 5; a copy of its weights goes to an evaluation. The owner of round 7 does not wait.
//
//   stage 0  .. [U 90-95][contribute 95-97][reduce 97-100][merge 100-104][copy 104-105]
inline std::vector<Piece> two_stages_and_a_round() {
  using enum WorkKind;
  std::vector<Piece> pieces = two_stages();
  pieces.push_back(
      {.kind = kContribute, .begin = 95, .end = 97, .microbatch = 7, .bytes = 30, .replicas = {0}});
  pieces.push_back(
      {.kind = kReduce, .begin = 97, .end = 100, .microbatch = 7, .bytes = 40, .replicas = {0, 2}});
  pieces.push_back({.kind = kMerge,
                    .begin = 100,
                    .end = 104,
                    .microbatch = 5,
                    .delay = 2,
                    .chunk = 1,
                    .replicas = {0}});
  pieces.push_back({.kind = kContribute,
                    .begin = 104,
                    .end = 105,
                    .microbatch = 1,
                    .bytes = 80,
                    .lane = Lane::kEvaluation,
                    .replicas = {0}});
  return pieces;
}

}  // namespace leeway
