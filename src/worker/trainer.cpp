#include "worker/trainer.h"

#include <cmath>

#include "base/check.h"
#include "optim/clip.h"
#include "worker/batches.h"
#include "worker/recipe_parts.h"

namespace leeway {

Trainer::Trainer(const Recipe& recipe, const TokenFile& train, int64_t vocabulary)
    : recipe_(recipe),
      train_(train),
      microbatches_(recipe.pipeline.update_every),
      sampler_{.seed = static_cast<uint64_t>(recipe.run.seed),
               .window_count = window_count_of(train.info().count, recipe.model.context),
               .replicas = 1,
               .microbatch = recipe.data.batch / microbatches_},
      schedule_(schedule_options(recipe)) {
  for (const StageOptions& options : stage_options(recipe, vocabulary)) {
    stages_.push_back(std::make_unique<Stage>(options));
  }
}

UpdateReport Trainer::next_update() {
  UpdateReport report;
  const int64_t first = updates_done() * microbatches_;
  for (int64_t i = 0; i < microbatches_; ++i) {
    report.loss += run_microbatch({first + i}) / static_cast<double>(microbatches_);
  }
  double squared = 0;
  for (const auto& stage : stages_) squared += stage->gradient_squared_norm();
  report.gradient_norm = std::sqrt(squared);
  report.rate_factor = rate_factor(schedule_, updates_done());
  report.applied = std::isfinite(report.loss) && std::isfinite(squared);
  if (report.applied) {
    const double scale = clip_scale(squared, recipe_.optimizer.clip);
    for (const auto& stage : stages_) stage->update(report.rate_factor, scale);
  }
  report.update = updates_done();
  return report;
}

double Trainer::run_microbatch(MicrobatchId m) {
  const Batch batch = read_microbatch(train_, recipe_.model.context, sampler_, m, ReplicaId{0},
                                      at::Device(recipe_.run.device));
  const size_t last = stages_.size() - 1;
  at::Tensor x = batch.inputs;
  for (size_t s = 0; s < last; ++s) x = stages_[s]->forward(m, x);
  const at::Tensor loss = stages_[last]->forward_to_loss(m, x, batch.targets);
  at::Tensor dx = stages_[last]->backward_from_loss(m, 1.0 / static_cast<double>(microbatches_));
  for (size_t s = last; s-- > 0;) dx = stages_[s]->backward(m, dx);
  return loss.item<double>();
}

at::Tensor Trainer::logits(const at::Tensor& ids) const {
  at::Tensor x = ids;
  for (const auto& stage : stages_) x = stage->evaluate(x);
  return x;
}

std::optional<Evaluation> Trainer::validate(const TokenFile& valid,
                                            const EvaluationProgress& progress) const {
  return evaluate([this](const at::Tensor& ids) { return logits(ids); }, valid,
                  {.context = recipe_.model.context,
                   .windows = recipe_.run.evaluate_windows,
                   .batch = sampler_.microbatch,
                   .device = at::Device(recipe_.run.device)},
                  progress);
}

int64_t Trainer::tokens_done() const {
  return updates_done() * recipe_.data.batch * recipe_.model.context;
}

int64_t Trainer::parameters() const {
  int64_t count = 0;
  for (const auto& stage : stages_) count += stage->weights().numel();
  return count;
}

at::Tensor Trainer::weights() const {
  std::vector<at::Tensor> parts;
  for (const auto& stage : stages_) parts.push_back(stage->weights());
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

Optimizer::State Trainer::optimizer_state() const {
  Optimizer::State whole = stages_.front()->optimizer().state();
  for (size_t s = 1; s < stages_.size(); ++s) {
    const Optimizer::State part = stages_[s]->optimizer().state();
    for (size_t b = 0; b < whole.buffers.size(); ++b) {
      whole.buffers[b].second = at::cat({whole.buffers[b].second, part.buffers[b].second});
    }
  }
  return whole;
}

Status Trainer::restore(const at::Tensor& weights, const Optimizer::State& state) {
  LEEWAY_CHECK(weights.numel() == parameters(), "the checkpoint's shape was checked before");
  int64_t offset = 0;
  for (const auto& stage : stages_) {
    const int64_t count = stage->weights().numel();
    const Optimizer::State live = stage->optimizer().state();
    LEEWAY_CHECK(live.buffers.size() == state.buffers.size(), "the buffers were checked before");
    for (size_t b = 0; b < live.buffers.size(); ++b) {
      at::Tensor buffer = live.buffers[b].second;
      buffer.copy_(state.buffers[b].second.narrow(0, offset, count));
    }
    LEEWAY_TRY(stage->optimizer().restore(state.updates, state.momentum_product));
    stage->load_weights(weights.narrow(0, offset, count));
    offset += count;
  }
  return {};
}

}  // namespace leeway
