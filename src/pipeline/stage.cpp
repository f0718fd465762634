#include "pipeline/stage.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "base/check.h"
#include "model/initial_weights.h"

namespace leeway {
namespace {

// Explicit backwards need none of the dispatcher's stops for autograd: skip them.
using WithoutAutograd = at::AutoDispatchBelowADInplaceOrView;

at::TensorOptions on(const StageOptions& options, at::ScalarType dtype) {
  return at::TensorOptions().dtype(dtype).device(options.device);
}

}  // namespace

Stage::Stage(const StageOptions& options)
    : options_(options),
      model_(options.shape, options.slice, on(options, options.compute)),
      weights_(at::empty({parameter_count(model_.layout())}, at::TensorOptions(options.master))),
      gradients_(at::zeros({weights_.numel()}, on(options, options.master))),
      gradient_views_(model_.view(gradients_)),
      optimizer_(options.update, model_.layout(), on(options, options.master)),
      versions_(model_, on(options, options.compute)) {
  fill_initial_weights(weights_, options.shape, model_.layout(), options.seed);
  weights_ = weights_.to(options.device);
  publish_weights();
}

at::Tensor Stage::forward(MicrobatchId m, const at::Tensor& input) {
  const WithoutAutograd guard;
  InFlight& flight = in_flight_[m];
  LEEWAY_CHECK(flight.version == nullptr, "a microbatch goes forward once");
  flight.version = versions_.newest();
  return model_.forward(flight.version->views, input, &flight.saved);
}

at::Tensor Stage::forward_to_loss(MicrobatchId m, const at::Tensor& input,
                                  const at::Tensor& targets) {
  const at::Tensor logits = forward(m, input);
  const WithoutAutograd guard;
  InFlight& flight = in_flight_.at(m);
  flight.targets = targets.view(-1);
  return loss_forward(logits, flight.targets, flight.loss);
}

Stage::InFlight Stage::take(MicrobatchId m) {
  auto node = in_flight_.extract(m);
  LEEWAY_CHECK(!node.empty(), "backward without its forward");
  return std::move(node.mapped());
}

at::Tensor Stage::backward(MicrobatchId m, const at::Tensor& dy) {
  const WithoutAutograd guard;
  InFlight flight = take(m);
  return model_.backward(flight.version->views, std::move(flight.saved), dy, gradient_views_);
}

at::Tensor Stage::backward_from_loss(MicrobatchId m, double scale) {
  const WithoutAutograd guard;
  InFlight flight = take(m);
  const at::Tensor dlogits =
      loss_backward(std::move(flight.loss), flight.targets, scale, options_.compute);
  return model_.backward(flight.version->views, std::move(flight.saved), dlogits, gradient_views_);
}

double Stage::gradient_squared_norm() const { return squared_norm(gradients_); }

void Stage::update(double rate_factor, double gradient_scale) {
  const WithoutAutograd guard;
  versions_.retire();
  auto next = versions_.take_free({optimizer_.updates_done() + 1});
  optimizer_.update({.weights = weights_,
                     .gradients = gradients_,
                     .compute = next->views.flat,
                     .rate_factor = rate_factor,
                     .gradient_scale = gradient_scale});
  versions_.publish(std::move(next));
  gradients_.zero_();
}

at::Tensor Stage::evaluate(const at::Tensor& input) const {
  const WithoutAutograd guard;
  return model_.forward(versions_.newest()->views, input, nullptr);
}

void Stage::load_weights(const at::Tensor& flat) {
  LEEWAY_CHECK(flat.numel() == weights_.numel(), "the checkpoint's layout was checked before");
  LEEWAY_CHECK(in_flight_.empty(), "weights change only where nothing is in flight");
  weights_.copy_(flat);
  publish_weights();
}

void Stage::publish_weights() {
  versions_.retire();
  auto version = versions_.take_free(updates_done());
  version->views.flat.copy_(weights_);
  versions_.publish(std::move(version));
}

}  // namespace leeway
