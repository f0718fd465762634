// Counts validation that runs beside training. At the boundary of an update to be validated, every
// replica sends a copy of its weights to replica 0; their mean is held there, and the validation
// data goes through it one batch at a time, at most one batch per training forward. Two evaluations
// may be pending; a third makes the update wait. Stage 0 is told when a batch is done, so that it
// never runs far ahead of a slower stage.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>

#include "base/check.h"

namespace leeway {

class Evaluations {
 public:
  // `here`: this worker's replica runs them; the others send their copies.
  Evaluations(int64_t batches, bool here) : batches_(batches), here_(here) {}

  // A copy of the weights after this update is due now.
  void want_copy(int64_t update) {
    LEEWAY_CHECK(!copy_due_, "a copy is sent at its own boundary, before the next one is due");
    copy_due_ = update;
  }
  std::optional<int64_t> copy_due() const { return copy_due_; }
  void copied() {
    LEEWAY_CHECK(copy_due_, "a copy is sent once");
    if (here_) pending_.push_back(*copy_due_);
    copy_due_.reset();
  }
  // The mean of the copies of this update is held now.
  void averaged(int64_t update) { averaged_.insert(update); }

  bool empty() const { return pending_.empty(); }
  bool full() const { return pending_.size() >= kPendingMax; }
  // Whether the mean for the oldest evaluation is held.
  bool ready() const { return !empty() && averaged_.contains(update()); }
  // Whether a batch may run now, beside a training forward.
  bool has_turn() const { return turn_; }

  // The oldest unfinished evaluation, and its next batch.
  int64_t update() const { return pending_.front(); }
  int64_t batch() const { return batch_; }
  bool at_last_batch() const { return batch_ + 1 == batches_; }
  int64_t in_flight() const { return in_flight_; }  // stage 0: batches not finished yet

  void forwarded() { turn_ = true; }
  void evaluated() {
    LEEWAY_CHECK(ready(), "a batch goes through weights that are held");
    turn_ = false;
    ++in_flight_;
    if (++batch_ < batches_) return;
    batch_ = 0;
    averaged_.erase(update());
    pending_.pop_front();
  }
  void acknowledged() { --in_flight_; }

 private:
  static constexpr size_t kPendingMax = 2;
  int64_t batches_ = 0;
  bool here_ = false;
  std::optional<int64_t> copy_due_;
  std::deque<int64_t> pending_;  // updates, oldest first
  std::set<int64_t> averaged_;   // updates
  int64_t batch_ = 0;
  int64_t in_flight_ = 0;
  bool turn_ = false;
};

}  // namespace leeway
