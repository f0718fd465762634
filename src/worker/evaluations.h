// Counts validation that runs beside training. At the boundary of an update to be validated, every
// replica sends a copy of its weights to the first replica; their mean is held there (or, where the
// plan says so, the first replica's own weights, and nothing is sent), and the validation data goes
// through it one batch at a time, at most one batch per training forward. Two
// evaluations may be pending; a third makes the update wait. Stage 0 is told when a batch is done,
// so that it never runs far ahead of a slower stage. Which replicas are in the mean stage 0 decides
// and says with the first batch. If the replica that evaluates is lost, the next one takes over;
// evaluations that not all of its stages have these copies for are given up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/replica_set.h"

namespace leeway {

class Evaluations {
 public:
  using Batch = std::pair<int64_t, int64_t>;  // update, batch

  explicit Evaluations(int64_t batches) : batches_(batches) {}

  // A copy of the weights after this update is due now.
  void want_copy(int64_t update) {
    LEEWAY_CHECK(!copy_due_, "a copy is sent at its own boundary, before the next one is due");
    copy_due_ = update;
  }
  std::optional<int64_t> copy_due() const { return copy_due_; }
  // `here`: this worker's replica evaluates it; otherwise the copy went elsewhere.
  void copied(bool here) {
    LEEWAY_CHECK(copy_due_, "a copy is sent once");
    newest_copy_ = *copy_due_;
    if (here && newest_copy_ > given_up_) pending_.push_back(newest_copy_);
    copy_due_.reset();
  }
  // Another replica evaluates its own weights after this update.
  void left_to_another(int64_t update) { newest_copy_ = update; }
  // Whether this stage will never evaluate this update, because its copy went elsewhere.
  bool is_impossible(int64_t update) const {
    const bool elsewhere =
        update <= newest_copy_ && std::ranges::find(pending_, update) == pending_.end();
    return update <= given_up_ || (elsewhere && update > newest_evaluated_.first);
  }
  bool was_evaluated(int64_t update, int64_t batch) const {
    return Batch{update, batch} <= newest_evaluated_;
  }
  // The newest update whose copy went elsewhere, if no later one stayed here.
  std::optional<int64_t> newest_elsewhere() const {
    if (!pending_.empty() || newest_copy_ <= given_up_) return std::nullopt;
    return newest_copy_;
  }
  void give_up(int64_t update) {
    given_up_ = std::max(given_up_, update);
    while (!pending_.empty() && pending_.front() <= given_up_) {
      averaged_.erase(pending_.front());
      pending_.pop_front();
      batch_ = 0;
    }
    std::erase_if(in_flight_, [&](const Batch& batch) { return batch.first <= given_up_; });
  }
  // The mean of these replicas' copies of this update is held now.
  void averaged(int64_t update, const ReplicaSet& replicas) { averaged_[update] = replicas; }

  bool empty() const { return pending_.empty(); }
  bool full() const { return pending_.size() >= kPendingMax; }
  // Whether the mean for the oldest evaluation is held.
  bool ready() const { return !empty() && averaged_.contains(update()); }
  // Whether a batch may run now, beside a training forward.
  bool has_turn() const { return turn_; }

  // The oldest unfinished evaluation, and its next batch.
  int64_t update() const { return pending_.front(); }
  int64_t batch() const { return batch_; }
  // Whose mean it is; one replica: its own weights.
  const ReplicaSet& replicas() const { return averaged_.at(update()); }
  bool at_last_batch() const { return batch_ + 1 == batches_; }
  // Stage 0: batches that the last stage has not finished yet.
  int64_t in_flight() const { return std::ssize(in_flight_); }

  void forwarded() { turn_ = true; }
  // `awaited`: stage 0 waits for the last stage to say that the batch is done.
  void evaluated(bool awaited) {
    LEEWAY_CHECK(ready(), "a batch goes through weights that are held");
    turn_ = false;
    newest_evaluated_ = {update(), batch_};
    if (awaited) in_flight_.push_back(newest_evaluated_);
    if (++batch_ < batches_) return;
    batch_ = 0;
    averaged_.erase(update());
    pending_.pop_front();
  }
  // Twice is once.
  void acknowledged(int64_t update, int64_t batch) { std::erase(in_flight_, Batch{update, batch}); }

 private:
  static constexpr size_t kPendingMax = 2;
  int64_t batches_ = 0;
  std::optional<int64_t> copy_due_;
  std::deque<int64_t> pending_;             // updates, oldest first
  std::map<int64_t, ReplicaSet> averaged_;  // by update
  int64_t batch_ = 0;
  std::deque<Batch> in_flight_;
  Batch newest_evaluated_ = {-1, -1};
  int64_t newest_copy_ = -1;  // update; -1: none yet
  int64_t given_up_ = -1;     // evaluations up to this update
  bool turn_ = false;
};

}  // namespace leeway
