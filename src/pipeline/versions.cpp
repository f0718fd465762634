#include "pipeline/versions.h"

namespace leeway {

Versions::Versions(const StageModel& model, const at::TensorOptions& options)
    : model_(model),
      options_(options),
      // A copy between a GPU and any other host memory would wait.
      host_options_(options.device(at::kCPU).pinned_memory(!options.device().is_cpu())) {}

std::shared_ptr<Version> Versions::take(Buffers& buffers, const at::TensorOptions& options) const {
  for (const std::shared_ptr<Version>& buffer : buffers) {
    // Only this list holds it; one thread owns a worker.
    if (buffer.use_count() == 1) return buffer;
  }
  auto fresh = std::make_shared<Version>();
  fresh->views = model_.view_flat(model_.make_flat(options));
  buffers.push_back(fresh);
  return fresh;
}

std::shared_ptr<Version> Versions::take_free(UpdateId update, int64_t guess) {
  auto free = take(buffers_, options_);
  free->update = update;
  free->guess = guess;
  return free;
}

std::shared_ptr<Version> Versions::take_copy(UpdateId update) {
  auto free = take(copy_buffers_, options_);
  free->update = update;
  return free;
}

std::shared_ptr<const Version> Versions::copy_to_host(const Version& version) {
  auto copy = take(host_buffers_, host_options_);
  copy->update = version.update;
  copy->guess = version.guess;
  copy->on_host = true;
  copy->views.flat.copy_(version.views.flat, /*non_blocking=*/true);
  return copy;
}

std::shared_ptr<const Version> Versions::copy_to_device(const Version& version) {
  auto copy = take_free(version.update, version.guess);
  copy->views.flat.copy_(version.views.flat, /*non_blocking=*/true);
  return copy;
}

std::shared_ptr<const Version> Versions::newest(int64_t guess) const {
  for (const std::shared_ptr<Version>& version : newest_) {
    if (version->guess == guess) return version;
  }
  return nullptr;
}

int64_t Versions::version_bytes() const {
  return parameter_count(model_.layout()) * static_cast<int64_t>(options_.dtype().itemsize());
}

}  // namespace leeway
