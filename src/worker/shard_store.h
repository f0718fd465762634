// Where a process keeps what its workers save. Writing takes its time: drivers call it away from
// the workers, which go on training, and tell each worker with a message what became of its state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "compute/stage_reports.h"
#include "worker/message.h"

namespace leeway {

class ShardStore {
 public:
  struct Stored {
    std::string file;  // its name in this store
    uint64_t size = 0;
    uint64_t hash = 0;
  };

  virtual ~ShardStore() = default;
  // On disk when it returns. Called one at a time.
  virtual Result<Stored> store(const StageState& state) = 0;
  // The newest state of this worker that is on this disk; null: there is none that can be read.
  virtual std::shared_ptr<const StageState> newest_of(WorkerId) { return nullptr; }
  // The state that a session ends with cannot be written: waits a moment, and says whether to try
  // again.
  virtual bool wait_to_store(const Error&) { return false; }
};

// Between two attempts, while the session goes on.
inline constexpr Nanos kStoreAgainAfter{10'000'000'000};

// Whether a state makes room for a newer one that comes while the disk is busy. A checkpoint needs
// the same update of all stages, and each decides by itself, perhaps on another machine: so they
// keep to the rounder number, the one that more powers of two divide.
bool makes_room(const StageState& waiting, const StageState& newer);

// For a worker: its state is stored; or is not, and will not be.
Message stored_message(const StageState& state, const Result<ShardStore::Stored>& stored);
// It is not, but is tried again.
Message store_again_message(const StageState& state, const Error& error);
// Another state of its worker is written in its place, because the disk was busy.
Message replaced_message(const StageState& state);

}  // namespace leeway
