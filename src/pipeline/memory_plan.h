// How much memory each stage of a run will need, before any is allocated.
//
// Exact: weights, gradients, optimizer, last update, and the number of versions (a test counts
// those of a real stage). Within a few per cent: activations (model/saved_bytes.h). Estimated:
// transient buffers. Left out: the token files, which are mapped, queued messages, the program with
// its libraries (130 MB), and heap fragmentation. In five runs of 14 million parameters the process
// took 1 % (one stage, gpipe) to 26 % (async) more than planned, not counting the libraries.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/schedule.h"
#include "pipeline/stage.h"

namespace leeway {

// What averaging keeps in addition to a worker's stage.
struct AveragingMemory {
  double buffers = 0;  // the rules' permanent buffers; saved in checkpoints
  double flights = 0;  // rounds that are not merged yet
  double answers = 0;  // kept for workers that ask again
};

// What a run demands of its stages besides their options.
struct MemoryLoad {
  int64_t microbatch_tokens = 0;
  int64_t run_microbatches = 0;     // a short run never fills a deep pipeline
  int64_t evaluations_pending = 0;  // evaluations whose weights are held at the same time
  int64_t replicas = 1;             // whose weights are collected to evaluate their mean
  std::vector<AveragingMemory> averaging = {};  // by stage; empty: none
  int64_t guesses = 0;  // made per update by `tentative`; 0: another look-ahead
};

// Bytes are doubles: exact up to 9 PB, with no overflow if a typo in a recipe asks for more.
struct StageMemory {
  int64_t parameters = 0;
  int64_t version_count = 1;
  int64_t in_flight = 1;  // microbatches

  double weights = 0;  // the master copy
  double gradients = 0;
  double optimizer = 0;    // moments, and Muon's scratch
  double last_update = 0;  // if a look-ahead extrapolates
  double versions = 0;     // compute copies that microbatches in flight hold, and the newest
  double activations = 0;
  double evaluation = 0;  // copies held for validation, only in the first replica
  double averaging = 0;   // buffers of its rules, rounds in flight
  double passing = 0;     // transient: gradients inside a backward, prediction samples, saving

  double total() const;
};

// The most compute copies that training holds at once. One, if every update flushes or nothing runs
// ahead. Otherwise it depends on the updates that microbatches in flight can span, and on how many
// copies of each the look-ahead needs: with a horizon, one for each of two delays, because forwards
// are late by W/K updates rounded down or up; with `tentative`, the weights themselves and its
// guesses.
int64_t version_count_max(const Schedule& schedule, const StageOptions& stage, int64_t guesses);

// One for each stage.
std::vector<StageMemory> plan_memory(const std::vector<StageOptions>& stages,
                                     const PipelineShape& shape, const MemoryLoad& load);

// The sum over all stages of all replicas, if they share one machine. `parameters` counts one
// model; everything else is added up.
StageMemory together(const std::vector<StageMemory>& stages, int64_t replicas = 1);

}  // namespace leeway
