// Compute copies of a stage's weights. A version lives as long as somebody holds it: a microbatch
// between its forward and its backward does, and that is the weight stash. A version that a forward
// has used is never written again.
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"
#include "model/stage_model.h"

namespace leeway {

struct Version {
  UpdateId update;    // how many updates the weights have had
  int64_t guess = 0;  // 0: the weights themselves; else which guess at weights to come
  StageViews views;   // of one flat buffer, in the compute dtype
};

class Versions {
 public:
  Versions(const StageModel& model, const at::TensorOptions& options);

  // A buffer that nobody holds, to be filled and then published.
  std::shared_ptr<Version> take_free(UpdateId update, int64_t guess);
  // One more version of the newest weights.
  void publish(std::shared_ptr<Version> version) { newest_.push_back(std::move(version)); }
  // The weights have changed: lets go of their old versions, whose buffers are free unless a
  // microbatch still holds them.
  void retire() { newest_.clear(); }
  // Of the newest weights; null if that one is not made yet.
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
