#include "compute/stage_compute.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "compute/batches.h"
#include "kernels/clip.h"
#include "kernels/gate.h"
#include "model/layers.h"

namespace leeway {

StageCompute::StageCompute(const StageComputeOptions& options, const TokenFile& train,
                           const TokenFile* valid)
    : options_(options),
      train_(train),
      valid_(valid),
      stage_(options.stage),
      wire_{.format = options.wire,
            .sequences = options.sampler.microbatch,
            .context = options.stage.shape.context,
            .width = options.stage.shape.width,
            .type = options.stage.compute},
      averaging_(options.lanes, options.worker.replica, stage_),
      parameter_norms_(stage_.model().layout(), options.stage.device),
      gate_(make_gate(options.stage.device)),
      guess_gate_(make_gate(options.stage.device)) {}

// Late forwards run at the weights that an update with the gradients known by then would produce.
// The first late forward lacks W_s of the update's K gradients, the last lacks one.
Ahead StageCompute::look_ahead(int64_t delay) {
  const TentativeOptions& tentative = options_.tentative;
  if (delay == 0) return {};
  if (tentative.refresh == 0)
    return {.delay = delay, .guess = options_.stage.horizon > 0 ? delay : 0};
  const int64_t known = accumulated_;
  const int64_t late = known - (options_.update_every - tentative.warmup);  // late forwards so far
  LEEWAY_CHECK(known > 0 && late >= 0, "the recipe check rejects guesses without gradients");
  const int64_t guess = 1 + late * std::min(tentative.refresh, tentative.warmup) / tentative.warmup;
  if (!stage_.has_guess(guess)) {
    // Each microbatch's gradient is scaled by 1/K.
    const double to_mean = static_cast<double>(options_.update_every) / static_cast<double>(known);
    set_gate({.norms = parameter_norms_.squares(stage_.gradients()),
              .clip = own_clip(),
              .factor = to_mean},
             guess_gate_);
    stage_.make_guess(guess, rate_factor_now(), /*gradient_scale=*/1, guess_gate_);
  }
  return {.delay = delay, .guess = guess};
}

double StageCompute::own_clip() const {
  return stage_clip(options_.clip, stage_.weights().numel(), options_.clip_parameters);
}

at::Tensor StageCompute::forward(MicrobatchId m, int64_t delay, const at::Tensor& activation) {
  const StageOptions& stage = options_.stage;
  Batch batch;
  if (is_first() || is_last()) {
    batch = read_microbatch(train_, stage.shape.context, options_.sampler, m,
                            options_.worker.replica, stage.device);
  }
  const at::Tensor input = is_first() ? batch.inputs : wire_.decoded(activation);
  const Ahead ahead = look_ahead(delay);
  if (!is_last()) return wire_.encoded(stage_.forward(m, ahead, input));
  stage_.forward_to_head(m, ahead, input, batch.targets,
                         1.0 / static_cast<double>(options_.update_every));
  return {};
}

at::Tensor StageCompute::backward(MicrobatchId m, const at::Tensor& gradient) {
  norms_.reset();
  ++accumulated_;
  at::Tensor dx;
  if (is_last()) {
    MicrobatchGradient made = stage_.backward_from_loss(m);
    losses_.push_back(std::move(made.loss));
    dx = std::move(made.dx);
  } else {
    dx = stage_.backward(m, wire_.decoded(gradient));
  }
  return is_first() ? dx : wire_.encoded(dx);
}

at::Tensor StageCompute::gradient_norms() {
  norms_ = parameter_norms_.squares(stage_.gradients());
  return norms_;
}

double StageCompute::rate_factor_now() const {
  return rate_factor(options_.schedule, stage_.updates_done().value);
}

LateUpdate StageCompute::update(const at::Tensor& total_norm) {
  const auto losses = std::exchange(losses_, {});
  set_gate({.norms = norms_.defined() ? norms_ : gradient_norms(),
            .total = total_norm,
            .losses = losses.empty() ? at::Tensor() : at::stack(losses),
            .clip = total_norm.defined() ? options_.clip : own_clip()},
           gate_);
  LateUpdate update = {.known = {.worker = options_.worker,
                                 .update = stage_.updates_done().value + 1,
                                 .rate_factor = rate_factor_now()},
                       .gate = Readout(gate_.clone()),
                       .total = total_norm.defined(),
                       .loss = is_last()};
  if (update.gate.here() && !update.read().applied) return update;
  stage_.update(update.known.rate_factor, /*gradient_scale=*/1, gate_);
  accumulated_ = 0;
  norms_.reset();
  const bool watch =
      options_.predict_every > 0 && stage_.updates_done().value % options_.predict_every == 0;
  if (watch) stage_.watch_prediction();
  return update;
}

std::optional<LatePrediction> StageCompute::take_prediction() {
  const auto sample = stage_.take_prediction();
  if (!sample) return std::nullopt;
  return LatePrediction{.known = {.worker = options_.worker,
                                  .update = sample->update.value + 1,
                                  .delay = sample->delay},
                        .distances = Readout(sample->distances)};
}

EvaluationOptions StageCompute::evaluation_options() const {
  return {.context = options_.stage.shape.context,
          .windows = options_.evaluate_windows,
          .batch = options_.sampler.microbatch,
          .device = options_.stage.device};
}

LateNorms StageCompute::merge(Lane lane, int64_t round, int64_t chunk, const at::Tensor& answer) {
  norms_.reset();  // averaged gradients have different norms
  return averaging_.merge(lane, round, chunk, answer);
}

bool StageCompute::fits(Lane lane, int64_t round, int64_t chunk, const at::Tensor& payload) const {
  if (lane != Lane::kEvaluation) return averaging_.fits(lane, round, chunk, payload);
  const at::Tensor& weights = stage_.weights();
  const bool rounded =
      weights.scalar_type() == at::kFloat && payload.scalar_type() == at::kBFloat16;
  return payload.sizes() == weights.sizes() &&
         (rounded || payload.scalar_type() == weights.scalar_type());
}

bool StageCompute::fits_evaluation(const at::Tensor& payload) const {
  if (!payload.defined() || payload.dim() != 3) return false;
  StageWire whole = wire_;
  whole.format = WireFormat::kF32;
  whole.sequences = std::min(wire_.sequences, payload.size(0));
  return whole.fits(payload);
}

at::Tensor StageCompute::model() const {
  const at::Tensor common = averaging_.common_model();
  return common.defined() ? common : stage_.weights();
}

// With one replica no clone is needed: hold_for_evaluation() copies the weights before they change.
at::Tensor StageCompute::copy_for_evaluation(bool rounded) const {
  const bool alone = options_.sampler.replicas == 1;
  if (rounded && stage_.weights().scalar_type() == at::kFloat) return model().to(at::kBFloat16);
  return alone ? model() : model().clone();
}

uint64_t StageCompute::model_hash() const {
  const at::Tensor shared = averaging_.shared_model();
  return shared.defined() ? hash_of_values(shared) : 0;
}

void StageCompute::hold_for_evaluation(int64_t update, const std::vector<at::Tensor>& copies) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& copy : copies) values.push_back(copy.to(stage_.weights().scalar_type()));
  const at::Tensor mean = values.size() == 1 ? values.front() : mean_of(values);
  held_[update].version = stage_.hold_copy(mean);
}

void StageCompute::forget_evaluations(int64_t update) {
  held_.erase(held_.begin(), held_.upper_bound(update));
}

at::Tensor StageCompute::evaluate(int64_t update, int64_t index, const at::Tensor& activation) {
  LEEWAY_CHECK(valid_ != nullptr, "evaluations are planned only if there is validation data");
  Held& held = held_.at(update);
  Batch batch;
  if (is_first() || is_last()) {
    const EvaluationOptions options = evaluation_options();
    const std::vector<uint64_t> windows = evaluation_batch(*valid_, options, index);
    batch = read_windows(*valid_, options.context, windows, options.device);
    held.windows += static_cast<int64_t>(windows.size());
  }
  const at::Tensor& input = is_first() ? batch.inputs : activation;
  if (!is_last()) return stage_.evaluate(*held.version, input);
  const at::Tensor mean = stage_.evaluate_loss(*held.version, input, batch.targets);
  const at::Tensor sum = mean.to(at::kDouble).mul_(static_cast<double>(batch.targets.numel()));
  held.loss_sum = held.loss_sum.defined() ? held.loss_sum.add_(sum) : sum;
  held.tokens += batch.targets.numel();
  return {};
}

StageEvaluation StageCompute::end_evaluation(int64_t update) {
  const auto node = held_.extract(update);
  const Held& held = node.mapped();
  return {.worker = options_.worker,
          .update = update,
          .loss = held.tokens > 0 ? held.loss_sum.item<double>() / static_cast<double>(held.tokens)
                                  : 0.0,
          .windows = held.windows};
}

StageState StageCompute::state() const {
  const auto copy = [](const at::Tensor& buffer) {  // no second one on the device
    return buffer.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  };
  StageState state = {.worker = options_.worker,
                      .update = stage_.updates_done().value,
                      .weights = copy(stage_.weights()),
                      .optimizer = stage_.optimizer().state()};
  state.sent = averaging_.sent();
  for (SentSteps& sent : state.sent) sent.payload = sent.payload.cpu();
  for (const auto& named : averaging_.buffers()) state.optimizer.buffers.push_back(named);
  for (auto& [name, buffer] : state.optimizer.buffers) buffer = copy(buffer);
  if (options_.saves_last_update) {
    const at::Tensor& last = stage_.last_update();
    state.optimizer.buffers.emplace_back(
        kLastUpdate, last.defined() ? copy(last) : at::zeros_like(state.weights));
  }
  return state;
}

Status StageCompute::take_over(const StageState& state) {
  const at::Tensor& own = stage_.weights();
  const auto fits = [&](const at::Tensor& tensor, at::ScalarType type) {
    return tensor.defined() && tensor.sizes() == own.sizes() && tensor.scalar_type() == type;
  };
  std::map<std::string, at::ScalarType> types;
  for (const auto& [name, buffer] : stage_.optimizer().state().buffers)
    types[name] = buffer.scalar_type();
  for (const auto& [name, buffer] : averaging_.buffers()) types[name] = buffer.scalar_type();
  if (options_.saves_last_update) types[kLastUpdate] = own.scalar_type();
  bool buffers = true;
  for (const auto& [name, buffer] : state.optimizer.buffers) {
    const auto expected = types.extract(name);
    buffers = buffers && !expected.empty() && fits(buffer, expected.mapped());
  }
  if (!fits(state.weights, own.scalar_type()) || !buffers || !types.empty())
    return Error{"the state of another stage or recipe"};
  return restore(state.weights, state.optimizer);
}

void StageCompute::restart(int64_t updates) {
  stage_.restart(updates);
  averaging_.restart();
  accumulated_ = 0;
  norms_.reset();
  gate_.fill_(1);
  losses_.clear();
  held_.clear();
}

int64_t StageCompute::state_bytes() const {
  constexpr int64_t kCounters = 64 * 1024;
  const auto tensors = static_cast<int64_t>(buffer_count()) + 1;
  return tensors * static_cast<int64_t>(stage_.weights().nbytes()) + kCounters;
}

size_t StageCompute::buffer_count() const {
  return stage_.optimizer().state().buffers.size() + averaging_.buffers().size() +
         (options_.saves_last_update ? 1 : 0);
}

Status StageCompute::restore(const at::Tensor& weights, const Optimizer::State& state) {
  std::map<std::string, at::Tensor> live;
  for (const auto& [name, buffer] : stage_.optimizer().state().buffers) live[name] = buffer;
  for (const auto& [name, buffer] : averaging_.buffers()) live[name] = buffer;
  if (stage_.last_update().defined()) live[kLastUpdate] = stage_.last_update();
  for (const auto& [name, buffer] : state.buffers) {
    const auto found = live.find(name);
    if (found != live.end()) found->second.copy_(buffer);
  }
  LEEWAY_TRY(stage_.optimizer().restore(state.updates, state.momentum_product));
  stage_.load_weights(weights);
  return {};
}

}  // namespace leeway
