// What a caller gets from a training run: callbacks while it trains, a summary at its end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/replica_set.h"
#include "base/result.h"
#include "worker/ask.h"

namespace leeway {

// One update of the whole model.
struct UpdateReport {
  int64_t update = 0;  // updates done, this one included
  double loss = 0;     // mean over the update's microbatches
  double gradient_norm = 0;
  double rate_factor = 0;
};

struct Evaluated {
  int64_t update = 0;
  double loss = 0;
  ReplicaSet replicas = {};  // whose model was measured: the mean of their weights, or
  bool own = false;          // one replica's own weights, or
  bool common = false;       // the model that they have in common
};

struct NewestEvaluations {
  std::optional<Evaluated> mean = {};  // of all replicas, or of the only one
  std::optional<Evaluated> own = {};   // of one of several
};

// Callbacks to follow a run. Any may be empty. They are called one at a time, but from the run's
// threads, and the run waits for them.
struct TrainingObserver {
  std::function<void(const UpdateReport&, double tokens_per_second)> updated;
  std::function<void(const Evaluated&)> evaluated;
  std::function<void(const Path& checkpoint)> saved;
  std::function<void(const std::string& warning)> warned;
  std::function<void(const std::string& note)> noted;
  // The run has begun: a way to ask it to stop or to save, from any thread. It may be kept: after
  // the end it does nothing.
  std::function<void(const std::function<void(Ask)>&)> begun;
  // The last checkpoint cannot be written: waits a moment, and says whether to try again. While it
  // waits, other callbacks may be called: replicas that are not done yet go on.
  std::function<bool(const Error&)> wait_to_save;
};

struct TrainingSummary {
  std::string json;       // summary.json, as written
  bool finished = false;  // false: stopped before the last update
  int64_t updates = 0;
  bool nothing_to_do = false;  // the resumed run was finished already
  bool regroups = false;       // it ended so that a replica that is back can take part: resume it
};

}  // namespace leeway
