// Where a worker's session ends: at the update that the plan names, or earlier if the user asks to
// stop. Stage 0 of a replica hears of the request and names the flush point; the other stages are
// told.
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
  bool stop_named() const { return named_; }  // the last update is decided
  // The last update that another replica has named, which this one must keep to.
  std::optional<int64_t> named_elsewhere() const { return named_elsewhere_; }

  void want_stop() { wanted_ = true; }
  void hear_of_stop(int64_t update) {
    wanted_ = true;
    named_elsewhere_ = update;
  }
  void stop_at(int64_t update) {
    last_update_ = std::min(update, last_update_);
    named_ = true;
  }

 private:
  int64_t last_update_;
  bool wanted_ = false;
  bool named_ = false;
  std::optional<int64_t> named_elsewhere_;
};

}  // namespace leeway
