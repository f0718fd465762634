// Where a worker's session ends: at the update that the plan names, or earlier if the user asks to
// stop. The coordinator asks stage 0 of one replica to name an update that none can have passed,
// and passes it on; stage 0 of every other replica ends there, or at the first flush point that it
// still can. The other stages are told. The number also travels in every message, so that replicas
// that wait for each other hear of it before they come to that update.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/check.h"

namespace leeway {

class SessionEnd {
 public:
  explicit SessionEnd(int64_t last_update) : last_update_(last_update) {}

  int64_t last_update() const { return last_update_; }
  bool stop_wanted() const { return wanted_; }
  bool stop_decided() const { return decided_; }  // the last update is known
  // The update that was named for all replicas.
  std::optional<int64_t> named() const { return named_; }

  void want_stop() { wanted_ = true; }
  void hear_of_stop(int64_t update) {
    wanted_ = true;
    named_ = named_ ? std::min(*named_, update) : update;
  }
  void stop_at(int64_t update) {
    last_update_ = std::min(update, last_update_);
    wanted_ = decided_ = true;
  }
  void name(int64_t update) { named_ = update; }

 private:
  int64_t last_update_;
  bool wanted_ = false;
  bool decided_ = false;
  std::optional<int64_t> named_;
};

}  // namespace leeway
