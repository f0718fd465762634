// How much memory each stage of a run will need, before any is allocated: on a GPU its memory, else
// the machine's.
//
// Exact: weights, gradients, optimizer, last update, and the number of versions (a test counts
// those of a real stage). Within a few per cent: activations (model/saved_bytes.h). Estimated:
// transient buffers. Left out: the token files, which are mapped, the program with its libraries
// (130 MB, on a GPU some 500 MB of its memory), and fragmentation. Tests compare the sum with the
// peak of real stages on the CPU, and of whole runs on a GPU (tests/gpu/memory_test.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/schedule.h"
#include "pipeline/stage.h"

namespace leeway {

// What averaging keeps in addition to a worker's stage.
struct AveragingMemory {
  double buffers = 0;   // the rules' permanent buffers; saved in checkpoints
  double flights = 0;   // rounds that are not merged yet
  double messages = 0;  // of a round on its way
  double answers = 0;   // kept for workers that ask again; replicas of a process share them
  double working = 0;   // while a chunk is reduced or merged
};

// What makes versions besides updates.
struct Boundaries {
  int64_t guesses = 0;         // made per update by `tentative`; 0: another look-ahead
  int64_t merge_position = 0;  // backwards of an update before its merge; 0: none is inside
  static constexpr int64_t kAnywhere = -1;  // on arrival: wherever it makes most versions
};

// What a run demands of its stages besides their options.
struct MemoryLoad {
  int64_t microbatch_tokens = 0;
  int64_t run_microbatches = 0;     // a short run never fills a deep pipeline
  int64_t evaluations_pending = 0;  // evaluations whose weights are held while it trains
  int64_t replicas = 1;             // whose weights are collected to evaluate their mean,
  bool evaluates_means = false;     // on the way too, not only at the end
  std::vector<AveragingMemory> averaging = {};  // by stage; empty: none
  Boundaries boundaries = {};
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
  double averaging = 0;   // buffers of its rules, rounds in flight, answers
  double shared = 0;      // of averaging: the same for all replicas of a process on one device
  double passing = 0;     // messages, prediction samples, saving; on a GPU also cuBLAS's own
  double working = 0;     // only while it computes: gradients inside a backward, a microbatch that
                          // is recomputed, chunks of a round
  double host = 0;        // of a worker on a GPU: versions in the machine's memory; not in total()

  double total() const;
  StageMemory& operator+=(const StageMemory& other);
};

// The most compute copies that training holds at once: microbatches in flight have as many as there
// were updates, merges and guesses between their forwards.
int64_t version_count_max(const Schedule& schedule, const StageOptions& stage,
                          const Boundaries& boundaries);

// One for each stage.
std::vector<StageMemory> plan_memory(const std::vector<StageOptions>& stages,
                                     const PipelineShape& shape, const MemoryLoad& load);

// What a worker of that stage needs. `evaluates`: it is in the first replica. `alone`: no worker
// before it shares with it, as replicas of a process do on one device.
StageMemory worker_memory(const StageMemory& stage, bool evaluates, bool alone);

// The sum over workers that share a device, `computing` of which compute at a time at most.
StageMemory together(std::vector<StageMemory> workers, int64_t computing);

// The workers of all stages of all replicas, if they share one device.
std::vector<StageMemory> all_workers(const std::vector<StageMemory>& stages, int64_t replicas);
// The sum over them, if all compute at once. `parameters` counts one model; everything else is
// added up.
StageMemory together(const std::vector<StageMemory>& stages);

}  // namespace leeway
