// Compute copies of a stage's weights. A version lives as long as it is held. A microbatch holds
// one from its forward to its backward: that is the weight stash. A version that a forward has used
// is never written again.
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"
#include "model/stage_model.h"

namespace leeway {

struct Version {
  UpdateId update;    // how many updates the weights have had
  int64_t guess = 0;  // 0: the weights themselves; else the number of the guess at coming weights
  StageViews views;   // into one flat buffer, in the compute dtype
};

class Versions {
 public:
  Versions(const StageModel& model, const at::TensorOptions& options);

  // A free buffer, to be filled and then published.
  std::shared_ptr<Version> take_free(UpdateId update, int64_t guess);
  // One more version of the newest weights.
  void publish(std::shared_ptr<Version> version) { newest_.push_back(std::move(version)); }
  // Call this when the weights have changed: it releases their old versions. A buffer is then free,
  // unless a microbatch still holds it.
  void retire() { newest_.clear(); }
  // A version of the newest weights; null if it is not made yet.
  std::shared_ptr<const Version> newest(int64_t guess) const;

  int64_t newest_count() const { return static_cast<int64_t>(newest_.size()); }
  int64_t allocated_count() const { return static_cast<int64_t>(buffers_.size()); }
  int64_t version_bytes() const;

 private:
  const StageModel& model_;
  at::TensorOptions options_;
  std::vector<std::shared_ptr<Version>> buffers_;
  std::vector<std::shared_ptr<Version>> newest_;
};

}  // namespace leeway
