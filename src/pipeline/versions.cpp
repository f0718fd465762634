#include "pipeline/versions.h"

namespace leeway {

Versions::Versions(const StageModel& model, const at::TensorOptions& options)
    : model_(model), options_(options) {}

std::shared_ptr<Version> Versions::take_free(UpdateId update, int64_t guess) {
  for (const std::shared_ptr<Version>& buffer : buffers_) {
    if (buffer.use_count() == 1) {  // only this list holds it; one thread owns a worker
      buffer->update = update;
      buffer->guess = guess;
      return buffer;
    }
  }
  auto fresh = std::make_shared<Version>();
  fresh->update = update;
  fresh->guess = guess;
  fresh->views = model_.view_flat(model_.make_flat(options_));
  buffers_.push_back(fresh);
  return fresh;
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
