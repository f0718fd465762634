#include "pipeline/stage.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "model/initial_weights.h"

namespace leeway {
namespace {

// Explicit backwards do not need the dispatcher's autograd layers: skip them.
using WithoutAutograd = at::AutoDispatchBelowADInplaceOrView;

at::TensorOptions on(const StageOptions& options, at::ScalarType dtype) {
  return at::TensorOptions().dtype(dtype).device(options.device);
}

}  // namespace

Stage::Stage(const StageOptions& options)
    : options_(options),
      model_(options.shape, options.slice, on(options, options.compute)),
      weights_(at::empty({parameter_count(model_.layout())}, at::TensorOptions(options.master))),
      gradients_(model_.make_flat(on(options, options.master))),
      gradient_views_(model_.view_flat(gradients_)),
      optimizer_(options.update, model_.layout(), on(options, options.master)),
      versions_(model_, on(options, options.compute)) {
  LEEWAY_CHECK(options.stash || options.recompute, "running without a stash needs recompute");
  LEEWAY_CHECK(options.stash || options.stash_on == StashPlace::kDevice, "no stash to be placed");
  LEEWAY_CHECK(!options.graphs || (options.stash && options.stash_on == StashPlace::kDevice),
               "the graph of a backward has the version of its forward, where it was");
  fill_initial_weights(weights_, options.shape, model_.layout(), options.seed);
  weights_ = weights_.to(options.device);
  if (options.horizon > 0) last_update_ = at::zeros_like(weights_);
  make_version(/*guess=*/0);
  if (!options.graphs) return;
  graphs_.emplace(
      options.device,
      MicrobatchPasses{
          .forward =
              [this](const Version& version, Microbatch& microbatch) {
                return forward_pass(version, microbatch, !options_.recompute);
              },
          .backward =
              [this](const Version& version, Microbatch& microbatch, const at::Tensor& dy) {
                return backward_pass(version, microbatch, dy);
              }});
}

void Stage::retire() {
  versions_.retire();
  if (options_.stash_on == StashPlace::kDevice || in_flight_.empty()) return;
  // Backwards come in the order of forwards: what the next one uses stays.
  const std::shared_ptr<const Version> next = in_flight_.begin()->second.version;
  std::map<const Version*, std::shared_ptr<const Version>> moved;
  for (auto& [m, flight] : in_flight_) {
    if (flight.version == next || flight.version->on_host) continue;
    auto& copy = moved[flight.version.get()];
    if (copy == nullptr) copy = versions_.copy_to_host(*flight.version);
    flight.version = copy;
  }
}

void Stage::bring_back() {
  if (in_flight_.empty()) return;
  const auto waiting = in_flight_.begin()->second.version;
  if (waiting == nullptr || !waiting->on_host) return;
  const auto back = versions_.copy_to_device(*waiting);
  for (auto& [m, flight] : in_flight_) {
    if (flight.version == waiting) flight.version = back;
  }
}

std::shared_ptr<Version> Stage::take_free(UpdateId update, int64_t guess) {
  // Forwards never go back to an earlier guess: with a stash on the host it makes room.
  if (options_.stash_on == StashPlace::kHost) retire();
  return versions_.take_free(update, guess);
}

std::shared_ptr<const Version> Stage::make_version(int64_t guess) {
  auto version = take_free(updates_done(), guess);
  at::Tensor& copy = version->views.flat;
  if (guess == 0) {
    copy.copy_(weights_);
  } else {
    LEEWAY_CHECK(options_.horizon > 0, "a tentative guess is made before it is used");
    const double shift = options_.horizon * static_cast<double>(guess);
    if (copy.scalar_type() == weights_.scalar_type()) {
      at::add_out(copy, weights_, last_update_, shift);
    } else {
      copy.copy_(at::add(weights_, last_update_, shift));  // rounded once, after the sum
    }
  }
  versions_.publish(version);
  return version;
}

void Stage::make_guess(int64_t guess, double rate_factor, double gradient_scale,
                       const at::Tensor& gate) {
  const WithoutAutograd guard;
  LEEWAY_CHECK(guess > 0 && !has_guess(guess), "a guess is made once");
  auto version = take_free(updates_done(), guess);
  optimizer_.preview({.weights = weights_,
                      .gradients = gradients_,
                      .compute = version->views.flat,
                      .rate_factor = rate_factor,
                      .gradient_scale = gradient_scale,
                      .gate = gate});
  versions_.publish(std::move(version));
}

std::shared_ptr<const Version> Stage::newest(int64_t guess) {
  auto version = versions_.newest(guess);
  return version != nullptr ? version : make_version(guess);
}

void Stage::count_versions() {
  std::set<const Version*> held;
  for (const auto& version : versions_.all_newest()) held.insert(version.get());
  for (const auto& [m, flight] : in_flight_) {
    if (flight.version != nullptr) held.insert(flight.version.get());
  }
  versions_peak_ = std::max(versions_peak_, static_cast<int64_t>(held.size()));
}

at::Tensor Stage::forward(MicrobatchId m, const Ahead& ahead, const at::Tensor& input) {
  return go_forward(m, ahead, {.input = input});
}

void Stage::forward_to_head(MicrobatchId m, const Ahead& ahead, const at::Tensor& input,
                            const at::Tensor& targets, double scale) {
  go_forward(m, ahead,
             {.input = input,
              .targets = targets.view(-1),
              .loss_options = {.scale = scale, .vocabulary = options_.shape.vocabulary}});
}

at::Tensor Stage::backward(MicrobatchId m, const at::Tensor& dy) { return go_backward(m, dy).dx; }

MicrobatchGradient Stage::backward_from_loss(MicrobatchId m) { return go_backward(m, {}); }

at::Tensor Stage::go_forward(MicrobatchId m, const Ahead& ahead, Microbatch microbatch) {
  const WithoutAutograd guard;
  auto version = newest(ahead.guess);
  const auto [place, inserted] = in_flight_.try_emplace(m);
  LEEWAY_CHECK(inserted, "a microbatch goes forward once");
  if (watch_wanted_ && ahead.delay > 0 && !probe_.waiting()) {
    probe_.begin(updates_done(), ahead.delay, weights_, version->views.flat);
    watch_wanted_ = false;
  }
  at::Tensor output;
  if (graphs_) {
    if (!graphs_->is_rehearsed()) {
      graphs_->rehearse(*version, microbatch);
      gradients_.zero_();  // as they were: it is the first microbatch of all
    }
    output = graphs_->forward(m, *version, microbatch);
  } else {
    // At the last stage the backward makes all of it.
    const bool only_later = options_.recompute && options_.slice.heads;
    if (!only_later) output = forward_pass(*version, microbatch, !options_.recompute);
    if (!options_.recompute) microbatch.input.reset();  // what of it is needed is saved
    place->second.microbatch = std::move(microbatch);
  }
  if (options_.stash) place->second.version = std::move(version);
  count_versions();
  return output;
}

at::Tensor Stage::forward_pass(const Version& version, Microbatch& microbatch, bool keeps) const {
  at::Tensor output =
      model_.forward(version.views, microbatch.input, keeps ? &microbatch.saved : nullptr);
  if (!microbatch.targets.defined()) return output;
  if (keeps) microbatch.head_in = std::move(output);
  return {};
}

at::Tensor Stage::backward_pass(const Version& version, Microbatch& microbatch,
                                const at::Tensor& dy) {
  if (options_.recompute) forward_pass(version, microbatch, /*keeps=*/true);
  at::Tensor dlast = dy;
  if (microbatch.targets.defined()) {
    HeadGradient head =
        head_gradient(version.views.head, std::exchange(microbatch.head_in, {}), microbatch.targets,
                      microbatch.loss_options, gradient_views_.head);
    microbatch.loss = std::move(head.loss);
    dlast = std::move(head.dx);
  }
  return model_.backward(version.views, std::move(microbatch.saved), dlast, gradient_views_);
}

MicrobatchGradient Stage::go_backward(MicrobatchId m, const at::Tensor& dy) {
  const WithoutAutograd guard;
  auto node = in_flight_.extract(m);
  LEEWAY_CHECK(!node.empty(), "backward without its forward");
  InFlight flight = std::move(node.mapped());
  // A gradient always meets the newest weights: without a stash it is also computed on them.
  if (!options_.stash) flight.version = newest(/*guess=*/0);
  LEEWAY_CHECK(!flight.version->on_host, "backwards come in the order of forwards");
  MicrobatchGradient gradient;
  if (graphs_) {
    gradient = graphs_->backward(m, *flight.version, dy);
  } else {
    gradient.dx = backward_pass(*flight.version, flight.microbatch, dy);
    gradient.loss = flight.microbatch.loss;
  }
  flight.version.reset();  // its buffer may be for the next one
  bring_back();
  return gradient;
}

void Stage::update(double rate_factor, double gradient_scale, const at::Tensor& gate) {
  const WithoutAutograd guard;
  if (probe_.due(updates_done())) prediction_ = probe_.end(weights_);
  retire();
  // If the next version is the weights themselves, the update writes it in its own pass. With a
  // look-ahead the forwards need other versions, which are made on first use.
  const bool looks_ahead = options_.horizon > 0;
  std::shared_ptr<Version> next;
  if (looks_ahead) {
    last_update_.copy_(weights_);
  } else {
    next = take_free({updates_done().value + 1}, /*guess=*/0);
  }
  optimizer_.update({.weights = weights_,
                     .gradients = gradients_,
                     .compute = next ? next->views.flat : at::Tensor(),
                     .rate_factor = rate_factor,
                     .gradient_scale = gradient_scale,
                     .gate = gate});
  if (looks_ahead) {
    at::sub_out(last_update_, weights_, last_update_);
  } else {
    versions_.publish(std::move(next));
  }
  gradients_.zero_();
}

at::Tensor Stage::writable_copy() {
  auto version = versions_.newest(/*guess=*/0);
  // Held by the list of buffers, by the newest versions, and here. Any other holder has used it.
  constexpr long kUnused = 3;
  const bool alone = version != nullptr && versions_.newest_count() == 1;
  if (alone && version.use_count() == kUnused) return version->views.flat;
  version.reset();  // its buffer may be for the next one
  retire();
  return {};
}

std::shared_ptr<const Version> Stage::hold_copy(const at::Tensor& flat) {
  const WithoutAutograd guard;
  auto version = versions_.take_copy(updates_done());
  version->views.flat.copy_(flat);
  return version;
}

at::Tensor Stage::evaluate(const Version& version, const at::Tensor& input) const {
  const WithoutAutograd guard;
  return model_.forward(version.views, input, nullptr);
}

at::Tensor Stage::evaluate_loss(const Version& version, const at::Tensor& input,
                                const at::Tensor& targets) const {
  const WithoutAutograd guard;
  return model_.loss(version.views, input, targets);
}

std::optional<PredictionSample> Stage::take_prediction() {
  return std::exchange(prediction_, std::nullopt);
}

void Stage::restart(int64_t updates) {
  in_flight_.clear();
  if (graphs_) graphs_->restart();
  gradients_.zero_();
  probe_ = {};
  watch_wanted_ = false;
  prediction_.reset();
  const Optimizer::State state = optimizer_.state();
  const Status restored = optimizer_.restore(updates, state.momentum_product);
  LEEWAY_CHECK(restored.ok(), "the optimizer's own state is one that a run can produce");
  retire();
  make_version(/*guess=*/0);
}

void Stage::load_weights(const at::Tensor& flat) {
  LEEWAY_CHECK(flat.numel() == weights_.numel(), "the checkpoint's layout was checked before");
  LEEWAY_CHECK(in_flight_.empty(), "weights change only where nothing is in flight");
  weights_.copy_(flat);
  retire();
  make_version(/*guess=*/0);
}

}  // namespace leeway
