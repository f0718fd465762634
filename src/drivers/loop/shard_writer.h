// Writes what the workers of a process save, in the background. At most one state of a worker waits
// for the disk, and one is being written; makes_room() says which of two waits.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "drivers/loop/background.h"
#include "worker/shard_store.h"

namespace leeway {

class ShardWriter {
 public:
  // To a worker that lives here; called from any thread.
  using Deliver = std::function<void(Message)>;
  // `store` null: nothing is kept, and every state counts as stored at once.
  ShardWriter(ShardStore* store, Background& background, Deliver deliver)
      : store_(store), background_(background), deliver_(std::move(deliver)) {}

  void take(std::shared_ptr<const StageState> state);
  // The worker is lost: what still waits of it was in its memory alone.
  void forget(WorkerId worker);
  // The session is over: what still waits is written if that works at once.
  void close();

 private:
  using State = std::shared_ptr<const StageState>;
  void write(WorkerId worker);
  State take_waiting(WorkerId worker);
  bool closed();
  bool keep_waiting(const State& state);
  void try_again(const State& state, const Error& error);

  ShardStore* store_;
  Background& background_;
  Deliver deliver_;
  std::mutex mutex_;
  std::map<WorkerId, State> waiting_;
  std::set<State> failed_;  // of those that wait: it was said
  bool closed_ = false;
};

}  // namespace leeway
