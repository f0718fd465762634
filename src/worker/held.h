// How much a worker keeps at the moment, for tests: none of it may grow with the length of a run.
#pragma once

#include <cstdint>

namespace leeway {

struct Held {
  int64_t pipeline = 0;     // activations and gradients that no work has used yet
  int64_t evaluations = 0;  // activations of validation batches
  int64_t open_chunks = 0;  // of rounds, that it owns
  int64_t repeats = 0;      // answers that others have asked for again
  int64_t given = 0;        // answers, in case they are asked for again
  int64_t rounds = 0;       // in flight
  int64_t answers = 0;      // not merged yet
  int64_t reports = 0;      // not known to be recorded
};

}  // namespace leeway
