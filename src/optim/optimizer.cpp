#include "optim/optimizer.h"

#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace leeway {
namespace {

void check_layout(const ParameterLayout& layout) {
  int64_t next = 0;
  for (const Parameter& parameter : layout) {
    LEEWAY_CHECK(parameter.offset == next, "a layout has ascending offsets and no gaps");
    LEEWAY_CHECK(parameter.count() > 0, "a parameter has elements");
    next += parameter.count();
  }
}

// Weight decay is for weights that multiply activations, not for norms and biases.
bool decays(ParameterKind kind) { return kind != ParameterKind::kVector; }

// The spans of the elementwise pass. Adjacent parameters with the same treatment form one span.
std::vector<Span> element_spans(const ParameterLayout& layout, UpdateRule rule) {
  check_layout(layout);
  std::vector<Span> spans;
  for (const Parameter& parameter : layout) {
    if (rule == UpdateRule::kMuon && parameter.kind == ParameterKind::kMatrix) continue;
    const bool decaying = decays(parameter.kind);
    const bool joins = !spans.empty() && spans.back().decays == decaying &&
                       spans.back().offset + spans.back().count == parameter.offset;
    if (joins) {
      spans.back().count += parameter.count();
    } else {
      spans.push_back({.offset = parameter.offset, .count = parameter.count(), .decays = decaying});
    }
  }
  return spans;
}

at::ScalarType moment_type(MomentType moments, at::ScalarType master) {
  if (moments == MomentType::kF32) return master;
  LEEWAY_CHECK(master == at::kFloat, "moments in bf16 are for weights in fp32");
  return at::kBFloat16;
}

}  // namespace

Optimizer::Optimizer(const UpdateOptions& options, const ParameterLayout& layout,
                     const at::TensorOptions& buffers)
    : options_(options),
      type_(c10::typeMetaToScalarType(buffers.dtype())),
      parameter_count_(leeway::parameter_count(layout)),
      elements_(element_spans(layout, options.rule), buffers.device()),
      matrix_pass_(options.rule == UpdateRule::kMuon ? layout : ParameterLayout(), buffers),
      momentum_(at::zeros({parameter_count_}, buffers.dtype(moment_type(options.moments, type_)))) {
  LEEWAY_CHECK(options_.rule != UpdateRule::kNAdamW || !options_.gradient_share,
               "NAdamW has a look-ahead of its own");
  LEEWAY_CHECK(options_.replicas >= 1, "a mean is of one replica at least");
  const double gradient_share = options_.gradient_share.value_or(0);
  LEEWAY_CHECK(gradient_share >= 0 && gradient_share <= 1, "gradient_share is from 0 to 1");
  if (options_.rule != UpdateRule::kSgd) variance_ = at::zeros_like(momentum_);
}

void Optimizer::check(const UpdateArguments& arguments) const {
  const auto is_flat = [&](const at::Tensor& tensor) {
    return tensor.dim() == 1 && tensor.numel() == parameter_count_ && tensor.is_contiguous() &&
           tensor.device() == momentum_.device();
  };
  LEEWAY_CHECK(is_flat(arguments.weights),
               "weights are flat, as long as the layout, on the device");
  LEEWAY_CHECK(is_flat(arguments.gradients), "gradients are flat, as long as the layout");
  LEEWAY_CHECK(!arguments.compute.defined() || is_flat(arguments.compute),
               "the compute copy is flat, as long as the layout");
  LEEWAY_CHECK(type_ == at::kFloat || type_ == at::kDouble, "weights are fp32 or fp64");
  LEEWAY_CHECK(arguments.weights.scalar_type() == type_, "weights have the optimizer's type");
  LEEWAY_CHECK(arguments.gradients.scalar_type() == type_, "gradients have the weights' type");
}

Direction Optimizer::element_direction() const {
  if (options_.gradient_share) {
    return matched_direction(options_.beta1, updates_, *options_.gradient_share);
  }
  switch (options_.rule) {
    case UpdateRule::kMuon:  // its parameters that are not matrices
    case UpdateRule::kAdamW:
      return adam_direction(options_.beta1, updates_);
    case UpdateRule::kNAdamW:
      return nadam_direction(options_.beta1, updates_, momentum_product_);
    case UpdateRule::kSgd:
      return momentum_direction(options_.beta1, options_.nesterov);
  }
  LEEWAY_UNREACHABLE("an optimizer without a rule");
}

Direction Optimizer::matrix_direction() const {
  if (options_.gradient_share) {
    return matched_direction(options_.beta1, updates_, *options_.gradient_share);
  }
  return momentum_direction(options_.beta1, options_.nesterov);
}

StepConstants Optimizer::element_constants(double rate, double gradient_scale) const {
  const Direction direction = element_direction();
  const auto updates = static_cast<double>(updates_);
  const double momentum_bias = 1 - std::pow(options_.beta1, updates);
  const double variance_bias = 1 - std::pow(options_.beta2, updates);
  return {.gradient_scale = gradient_scale,
          .momentum_share = 1 - options_.beta1,
          .variance_keep = options_.beta2,
          .weight_keep = 1 - rate * options_.decay,
          .gradient_part = rate * direction.gradient,
          .momentum_part = rate * direction.momentum,
          .root_scale = 1 / std::sqrt(variance_bias),
          .epsilon = options_.epsilon,
          .noise_share = 1 / static_cast<double>(options_.replicas),
          .square_scale = variance_bias / (momentum_bias * momentum_bias)};
}

StepConstants Optimizer::matrix_constants(double rate, double gradient_scale) const {
  const Direction direction = matrix_direction();
  StepConstants constants;
  constants.gradient_scale = gradient_scale;
  constants.momentum_share = 1 - options_.beta1;
  constants.weight_keep = 1 - rate * options_.decay;
  constants.gradient_part = direction.gradient;
  constants.momentum_part = direction.momentum;
  return constants;
}

void Optimizer::count_update() {
  ++updates_;
  if (options_.rule == UpdateRule::kNAdamW) {
    momentum_product_ *= nadam_momentum(options_.beta1, updates_);
  }
}

// The same for all replicas: where they average gradients, they keep the same bits.
uint64_t Optimizer::rounding() const {
  return fold(
      {.seed = options_.seed, .stream = Stream::kMoments, .name = static_cast<uint64_t>(updates_)});
}

void Optimizer::update(const UpdateArguments& arguments) {
  count_update();
  run(arguments, {.weights = arguments.weights,
                  .gradients = arguments.gradients,
                  .momentum = momentum_,
                  .variance = variance_,
                  .compute = arguments.compute,
                  .gate = arguments.gate,
                  .rounding = rounding()});
}

void Optimizer::preview(const UpdateArguments& arguments) {
  LEEWAY_CHECK(arguments.compute.defined(), "a preview writes to the compute copy");
  const int64_t updates = updates_;
  const double momentum_product = momentum_product_;
  count_update();
  run(arguments, {.weights = arguments.weights,
                  .gradients = arguments.gradients,
                  .momentum = momentum_,
                  .variance = variance_,
                  .compute = arguments.compute,
                  .preview = true,
                  .gate = arguments.gate});
  updates_ = updates;
  momentum_product_ = momentum_product;
}

void Optimizer::run(const UpdateArguments& arguments, const PassTensors& tensors) {
  check(arguments);
  const double matrix_rate = options_.matrix_rate * arguments.rate_factor;
  const StepConstants elements =
      element_constants(options_.rate * arguments.rate_factor, arguments.gradient_scale);
  const StepConstants matrices = matrix_constants(matrix_rate, arguments.gradient_scale);
  element_pass(elements_, elements, tensors);
  matrix_pass_.run(matrices, matrix_rate, tensors);
}

Optimizer::State Optimizer::state() const {
  State state;
  state.buffers.emplace_back("momentum", momentum_);
  if (variance_.defined()) state.buffers.emplace_back("variance", variance_);
  state.updates = updates_;
  state.momentum_product = momentum_product_;
  return state;
}

Status Optimizer::restore(int64_t updates, double momentum_product) {
  if (updates < 0) return Error{"the optimizer state has a negative number of updates"};
  if (!(momentum_product >= 0 && momentum_product <= 1)) {
    return Error{"the optimizer state has a momentum product outside 0 to 1"};
  }
  updates_ = updates;
  momentum_product_ = momentum_product;
  return {};
}

int64_t Optimizer::state_bytes() const {
  return static_cast<int64_t>(momentum_.nbytes() + (variance_.defined() ? variance_.nbytes() : 0));
}

}  // namespace leeway
