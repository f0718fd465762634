// A worker's two ways out: messages to other workers, and reports to whoever keeps the run's
// books. A driver stands behind both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "events/work.h"
#include "optim/optimizer.h"
#include "worker/message.h"

namespace leeway {

class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void send(Message message) = 0;
  // Delivers the message to its own sender once so much time has passed.
  virtual void remind(Message message, Nanos after) = 0;
};

// One stage's part of one update.
struct StageUpdate {
  WorkerId worker;
  int64_t update = 0;       // updates done, this one included
  bool applied = true;      // false: loss or gradients were not finite, and the weights stand
  double squared_norm = 0;  // of this stage's gradients
  std::optional<double> total_squared_norm = std::nullopt;  // of the model's, where it is known
  double rate_factor = 0;
  std::optional<double> loss = std::nullopt;  // last stage: mean over the update's microbatches
};

// How well the look-ahead guessed: the distance between the weights that a forward used and those
// its gradient met, over the same distance without look-ahead. Below 1 it helps.
struct Prediction {
  WorkerId worker;
  int64_t update = 0;
  int64_t delay = 0;
  double error = 0;
};

struct StageEvaluation {
  WorkerId worker;
  int64_t update = 0;
  double loss = 0;  // mean over the tokens
  int64_t windows = 0;
};

// What a checkpoint needs of one stage, copied.
struct StageState {
  WorkerId worker;
  int64_t update = 0;
  at::Tensor weights;
  Optimizer::State optimizer;        // with the buffers of averaging
  std::vector<int64_t> rounds = {};  // the next one, by lane
};

// Keeps the books of a run. One call at a time: the driver sees to it.
class Books {
 public:
  virtual ~Books() = default;
  virtual void worked(const WorkRecord& record) = 0;
  virtual void updated(const StageUpdate& update) = 0;
  virtual void predicted(const Prediction& prediction) = 0;
  virtual void evaluated(const StageEvaluation& evaluation) = 0;
  virtual void saved(StageState state) = 0;

  // The run cannot go on (it diverged, the disk is full): the driver stops without draining.
  virtual bool abandoned() const = 0;
  // A person wants an end: the driver tells stage 0, and the pipeline drains.
  virtual bool stop_wanted() const = 0;
};

}  // namespace leeway
