// Compute copies of a stage's weights. A version lives as long as it is held. A microbatch holds
// one from its forward to its backward: that is the weight stash. A version that a forward has used
// is never written again. One that only a backward will need can wait in host memory. Copies there
// and back are work for the current stream, like all that uses a version: they come in order, and
// nobody waits for them.
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
  bool on_host = false;  // in host memory: to be copied back before it is used
};

class Versions {
 public:
  Versions(const StageModel& model, const at::TensorOptions& options);

  // A free buffer, to be filled and then published.
  std::shared_ptr<Version> take_free(UpdateId update, int64_t guess);
  // Of other weights, for as long as it is held. It has buffers of its own, so that those of
  // training are used in the same order whether or not anything is evaluated.
  std::shared_ptr<Version> take_copy(UpdateId update);
  // One more version of the newest weights.
  void publish(std::shared_ptr<Version> version) { newest_.push_back(std::move(version)); }
  // Call this when the weights have changed: it releases their old versions. A buffer is then free,
  // unless a microbatch still holds it.
  void retire() { newest_.clear(); }
  // A version of the newest weights; null if it is not made yet.
  std::shared_ptr<const Version> newest(int64_t guess) const;

  // Copies of a version in the other memory. Its own buffer is free once nobody holds it.
  std::shared_ptr<const Version> copy_to_host(const Version& version);
  std::shared_ptr<const Version> copy_to_device(const Version& version);

  const std::vector<std::shared_ptr<Version>>& all_newest() const { return newest_; }
  int64_t newest_count() const { return static_cast<int64_t>(newest_.size()); }
  int64_t allocated_count() const {
    return static_cast<int64_t>(buffers_.size() + copy_buffers_.size());
  }
  int64_t allocated_on_host() const { return static_cast<int64_t>(host_buffers_.size()); }
  int64_t version_bytes() const;

 private:
  using Buffers = std::vector<std::shared_ptr<Version>>;
  std::shared_ptr<Version> take(Buffers& buffers, const at::TensorOptions& options) const;

  const StageModel& model_;
  at::TensorOptions options_;
  at::TensorOptions host_options_;
  Buffers buffers_;
  Buffers copy_buffers_;
  Buffers host_buffers_;
  Buffers newest_;
};

}  // namespace leeway
