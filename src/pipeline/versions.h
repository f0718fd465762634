// Compute copies of a stage's weights. A version lives as long as somebody holds it: a microbatch
// between its forward and its backward does, and that is the weight stash.
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"
#include "model/stage_model.h"

namespace leeway {

struct Version {
  UpdateId update;   // how many updates the weights have had
  StageViews views;  // of one flat buffer, in the compute dtype
};

class Versions {
 public:
  Versions(const StageModel& model, const at::TensorOptions& options);

  // A buffer that nobody holds, to be filled for `update` and then published.
  std::shared_ptr<Version> take_free(UpdateId update);
  void publish(std::shared_ptr<Version> version) { newest_ = std::move(version); }
  // Lets go of the newest version, so that its buffer is free unless a microbatch still holds it.
  void retire() { newest_.reset(); }
  // Never written again while anyone but this class holds it.
  std::shared_ptr<const Version> newest() const { return newest_; }

  int64_t allocated_count() const { return static_cast<int64_t>(buffers_.size()); }

 private:
  const StageModel& model_;
  at::TensorOptions options_;
  std::vector<std::shared_ptr<Version>> buffers_;
  std::shared_ptr<Version> newest_;
};

}  // namespace leeway
