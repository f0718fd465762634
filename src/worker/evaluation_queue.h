// Validation beside training, in counters: a stage holds its weights as they were after some
// updates, and sends the validation data through them one batch at a time, at most one batch per
// training forward. Two evaluations may be pending; a third makes the update wait. Stage 0 hears of
// each batch that is through, so that it never runs far ahead of a slower stage.
#pragma once

#include <cstdint>
#include <deque>

namespace leeway {

class EvaluationQueue {
 public:
  explicit EvaluationQueue(int64_t batches) : batches_(batches) {}

  bool empty() const { return pending_.empty(); }
  bool full() const { return pending_.size() >= kPendingMax; }
  // Whether a batch may go now, beside a training forward.
  bool has_turn() const { return turn_; }

  // The oldest evaluation that is not through, and its next batch.
  int64_t update() const { return pending_.front(); }
  int64_t batch() const { return batch_; }
  int64_t in_flight() const { return in_flight_; }  // stage 0: batches that are on their way

  void hold(int64_t update) { pending_.push_back(update); }
  void forwarded() { turn_ = true; }
  // True: that was the last batch of this evaluation.
  bool evaluated() {
    turn_ = false;
    ++in_flight_;
    if (++batch_ < batches_) return false;
    batch_ = 0;
    pending_.pop_front();
    return true;
  }

  void acknowledged() { --in_flight_; }

 private:
  static constexpr size_t kPendingMax = 2;
  int64_t batches_ = 0;
  int64_t batch_ = 0;
  int64_t in_flight_ = 0;
  bool turn_ = false;
  std::deque<int64_t> pending_;  // updates
};

}  // namespace leeway
