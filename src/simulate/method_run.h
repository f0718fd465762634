// Simulates one method on a cluster, without training: its speed, and what it costs.
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
  double busy = 0;     // share of time, mean over the replicas
  ValueCounts delays;  // of gradients, in updates
  double memory_bytes = 0;
};

struct SiteTraffic {
  size_t from = 0;
  size_t to = 0;
  int64_t messages = 0;
  int64_t bytes = 0;  // payload; not counted within a machine
};

// The link between machines that carried most.
struct BusiestLink {
  std::string from;
  std::string to;
  int64_t bytes = 0;
};

// What each worker has of something, per update.
struct PerWorker {
  double mean = 0;
  double most = 0;  // of the worker that has most: an owner that does too much shows here
};

// A moment of a run that trains.
struct LossPoint {
  double seconds = 0;  // simulated
  int64_t update = 0;
  double loss = 0;
};

struct MethodResult {
  std::string name;
  std::string failure = {};  // not empty: why there is no result
  LoadedRecipe recipe;
  int64_t parameters = 0;
  int64_t updates = 0;           // simulated
  double seconds = 0;            // simulated
  double together = 0;           // of these, the measured ones, if there are machine events
  double tokens_per_second = 0;  // once pipelines are full
  double busy = 0;               // mean over all workers
  std::vector<StageResult> stages;
  ValueCounts lags;  // updates between sending a part and merging the mean
  int64_t rounds = 0;
  PurposeBytes bytes;           // over the simulated updates
  PerWorker averaging_bytes;    // sent
  PerWorker averaging_seconds;  // of computing
  std::vector<SiteTraffic> traffic;
  BusiestLink busiest;
  double price_per_hour = 0;
  std::vector<std::string> notes;  // complete sentences
  uint64_t events = 0;
  int64_t stand_in_parameters = 0;     // of the stand-in that trained, if any
  std::vector<LossPoint> losses;       // training, if simulate.math
  std::vector<LossPoint> evaluations;  // validation, if simulate.math
  double price_per_million_tokens() const;
  double worker_memory() const;                 // bytes, for the largest stage
  const std::vector<LossPoint>& curve() const;  // validation, or training if there is none
};

struct MethodRequest {
  std::string name;
  const LoadedRecipe& recipe;
  int64_t vocabulary = 0;
  int64_t updates = 0;      // 0: as many as a steady result needs
  bool evaluation = false;  // simulate evaluations too
  Placement placement;
  // Called with the share done; false stops the simulation.
  std::function<bool(double share)> progress = {};
};

// Simulates as many updates as requested, or as a steady result needs, or, with machine events, the
// same time for every method. Impossible input is an error; a mesh that gets stuck is a result with
// a failure.
Result<MethodResult> simulate_method(const Cluster& cluster, const MethodRequest& request);

// Updates after which the pattern of rounds and evaluations repeats. `evaluation`: updates
// after which that of evaluations does; 0: they are not simulated.
int64_t updates_period(const Recipe& recipe, int64_t evaluation);

// The part of the result that follows from the recipe alone: memory, prices.
MethodResult described(const Cluster& cluster, const MethodRequest& request);

}  // namespace leeway
