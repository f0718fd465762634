// One method on a cluster, without arithmetic: what it would reach, and what it would cost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/load.h"
#include "simulate/cluster.h"
#include "simulate/tally.h"

namespace leeway {

struct StageResult {
  double busy = 0;     // share of its time, mean over the replicas
  ValueCounts delays;  // updates that gradients are late
  double memory_bytes = 0;
};

struct SiteTraffic {
  size_t from = 0;
  size_t to = 0;
  int64_t messages = 0;
  int64_t bytes = 0;  // of payload; within a machine nothing is counted
};

// Of the links between machines, the one that carried most.
struct BusiestLink {
  std::string from;
  std::string to;
  int64_t bytes = 0;
};

// A moment of a run with arithmetic.
struct LossPoint {
  double seconds = 0;  // simulated
  int64_t update = 0;
  double loss = 0;
};

struct MethodResult {
  std::string name;
  std::string failure = {};  // not empty: why there are no numbers
  LoadedRecipe recipe;
  int64_t parameters = 0;
  int64_t updates = 0;           // that were simulated
  double seconds = 0;            // of simulated time
  double together = 0;           // of these, where things happen to machines, those measured
  double tokens_per_second = 0;  // once pipelines are full
  double busy = 0;               // mean over all workers
  std::vector<StageResult> stages;
  ValueCounts lags;  // updates between sending a part and merging the mean
  int64_t rounds = 0;
  PurposeBytes bytes;  // over the simulated updates
  std::vector<SiteTraffic> traffic;
  BusiestLink busiest;
  double price_per_hour = 0;
  std::vector<std::string> notes;  // whole sentences
  uint64_t events = 0;
  int64_t stand_in_parameters = 0;     // with arithmetic: of what trained in its place, if anything
  std::vector<LossPoint> losses;       // with arithmetic: training
  std::vector<LossPoint> evaluations;  // and validation
  double price_per_million_tokens() const;
  double worker_memory() const;                 // bytes, of the stage that takes most
  const std::vector<LossPoint>& curve() const;  // validation, or training where there is none
};

struct MethodRequest {
  std::string name;
  const LoadedRecipe& recipe;
  int64_t vocabulary = 0;
  int64_t updates = 0;      // 0: as many as steady numbers take
  bool evaluation = false;  // simulate evaluations too
  Placement placement;
  // The share that is done; false ends it.
  std::function<bool(double share)> progress = {};
};

// As many updates as the request asks for; or as steady numbers take; or where something happens to
// machines, the same time for every method. What a user's numbers make impossible is an error; a
// mesh that comes to a standstill is a result with a failure.
Result<MethodResult> simulate_method(const Cluster& cluster, const MethodRequest& request);

// Rounds, repairs and, where they are asked for, evaluations come round again after so many
// updates.
int64_t updates_period(const Recipe& recipe, bool evaluation);

// Refuses what 64 bits of nanoseconds could not count.
Status check_clock(const Cluster& cluster, const MethodRequest& request, int64_t updates);

// The part of the result that follows from the recipe alone: memory, prices.
MethodResult described(const Cluster& cluster, const MethodRequest& request);

}  // namespace leeway
