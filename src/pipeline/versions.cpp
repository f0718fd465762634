#include "pipeline/versions.h"

namespace leeway {

Versions::Versions(const StageModel& model, const at::TensorOptions& options)
    : model_(model), options_(options) {}

std::shared_ptr<Version> Versions::take_free(UpdateId update) {
  for (const std::shared_ptr<Version>& buffer : buffers_) {
    if (buffer.use_count() == 1) {  // only this list holds it; one thread owns a worker
      buffer->update = update;
      return buffer;
    }
  }
  auto fresh = std::make_shared<Version>();
  fresh->update = update;
  fresh->views = model_.view(at::empty({parameter_count(model_.layout())}, options_));
  buffers_.push_back(fresh);
  return fresh;
}

}  // namespace leeway
