// How much memory each stage of a run will take, before any of it is taken.
//
// Exact: weights, gradients, optimizer, last update, and the number of versions (a test counts
// those of a real stage). Within a few per cent: activations (model/saved_bytes.h). Estimated: what
// passes. Left out: the token files, which are mapped, messages that wait for their turn, the
// program with its libraries (130 MB), and holes between blocks that are freed in another order
// than they were taken. Of five runs of 14 million parameters the process took 1 % (one stage,
// gpipe) to 26 % (async) more than planned, beside the libraries.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/schedule.h"
#include "pipeline/stage.h"

namespace leeway {

// What averaging keeps beside a worker's stage.
struct AveragingMemory {
  double buffers = 0;  // of the rules, for good; a checkpoint has them
  double flights = 0;  // of rounds that are not merged yet
  double answers = 0;  // for who asks again
};

// What a run asks of its stages beside their options.
struct MemoryLoad {
  int64_t microbatch_tokens = 0;
  int64_t run_microbatches = 0;     // a short run never fills a deep pipeline
  int64_t evaluations_pending = 0;  // whose weights are held at once
  int64_t replicas = 1;
  std::vector<AveragingMemory> averaging = {};  // by stage; empty: none
  int64_t guesses = 0;  // that `tentative` makes per update; 0: another look-ahead
};

// Bytes are doubles: exact up to 9 PB, and no overflow beyond, where a slip in a recipe may lead.
struct StageMemory {
  int64_t parameters = 0;
  int64_t version_count = 1;
  int64_t in_flight = 1;  // microbatches

  double weights = 0;  // the master copy
  double gradients = 0;
  double optimizer = 0;    // moments, and Muon's scratch
  double last_update = 0;  // where a look-ahead extrapolates
  double versions = 0;     // compute copies that microbatches in flight hold, and the newest
  double activations = 0;
  double evaluation = 0;  // copies that are held for validation, in the first replica alone
  double averaging = 0;   // buffers of its rules, rounds in flight
  double passing = 0;     // gradients inside a backward, samples of the look-ahead, saving

  double total() const;
};

// Compute copies that training holds at most. Every update flushes, or nothing runs ahead: one.
// Otherwise the updates that microbatches in flight can span, and what the look-ahead makes of each
// of them: by a horizon, a copy for each of two delays, as forwards are late by W/K updates rounded
// down or up; `tentative`, the weights themselves and its guesses.
int64_t version_count_max(const Schedule& schedule, const StageOptions& stage, int64_t guesses);

// One for each stage.
std::vector<StageMemory> plan_memory(const std::vector<StageOptions>& stages,
                                     const PipelineShape& shape, const MemoryLoad& load);

// Of all stages of all replicas, where they share one machine; parameters are those of one model,
// everything else is added up.
StageMemory together(const std::vector<StageMemory>& stages, int64_t replicas = 1);

}  // namespace leeway
