#include "drivers/loop/shard_writer.h"

#include <utility>

namespace leeway {

void ShardWriter::take(State state) {
  if (store_ == nullptr) return deliver_(stored_message(*state, ShardStore::Stored{}));
  const WorkerId worker = state->worker;
  State replaced;
  bool queued = false;  // one that is only replaced has its turn already: a slow disk gets no queue
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    State& waiting = waiting_[worker];
    queued = waiting && !failed_.contains(waiting);
    const bool replaces = !waiting || makes_room(*waiting, *state);
    replaced = replaces ? std::exchange(waiting, std::move(state)) : std::move(state);
    if (replaced) failed_.erase(replaced);
  }
  if (replaced) deliver_(replaced_message(*replaced));
  if (!queued) background_.run([this, worker] { write(worker); });
}

void ShardWriter::forget(WorkerId worker) {
  if (const State state = take_waiting(worker)) {
    const std::lock_guard lock(mutex_);
    failed_.erase(state);
  }
}

void ShardWriter::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

bool ShardWriter::closed() {
  const std::lock_guard lock(mutex_);
  return closed_;
}

ShardWriter::State ShardWriter::take_waiting(WorkerId worker) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(worker);
  return found == waiting_.end() ? nullptr : std::move(waiting_.extract(found).mapped());
}

// False: a newer one has come, or nobody waits for it any more.
bool ShardWriter::keep_waiting(const State& state) {
  const std::lock_guard lock(mutex_);
  return !closed_ && waiting_.emplace(state->worker, state).second;
}

void ShardWriter::write(WorkerId worker) {
  const State state = take_waiting(worker);
  if (!state) return;  // written by an earlier turn
  const Result<ShardStore::Stored> stored = store_->store(*state);
  if (!stored.ok()) return try_again(state, stored.error());
  {
    const std::lock_guard lock(mutex_);
    failed_.erase(state);
  }
  deliver_(stored_message(*state, stored));
}

// Nothing is lost while this process lives: a full disk can be freed.
void ShardWriter::try_again(const State& state, const Error& error) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = failed_.insert(state).second;
  }
  if (first) deliver_(store_again_message(*state, error));
  const bool gives_up = closed() || (state->last && !store_->wait_to_store(error));
  const bool keeps = !gives_up && keep_waiting(state);
  if (!keeps) {
    const std::lock_guard lock(mutex_);
    failed_.erase(state);
  }
  if (gives_up) return deliver_(stored_message(*state, error));
  if (!keeps) return deliver_(replaced_message(*state));
  const Nanos after = state->last ? Nanos{} : kStoreAgainAfter;
  background_.run_after(after, [this, worker = state->worker] { write(worker); });
}

}  // namespace leeway
