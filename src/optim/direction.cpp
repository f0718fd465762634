#include "optim/direction.h"

#include <cmath>

namespace leeway {
namespace {

constexpr double kMomentumDecay = 0.004;  // psi, or momentum_decay of torch.optim.NAdam

}  // namespace

Direction momentum_direction(double beta1, bool nesterov) {
  if (!nesterov) return {.gradient = 0, .momentum = 1};
  return {.gradient = 1 - beta1, .momentum = beta1};
}

Direction adam_direction(double beta1, int64_t update) {
  return {.gradient = 0, .momentum = 1 / (1 - std::pow(beta1, static_cast<double>(update)))};
}

double nadam_momentum(double beta1, int64_t update) {
  return beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(update) * kMomentumDecay));
}

Direction nadam_direction(double beta1, int64_t update, double product) {
  const double mu = nadam_momentum(beta1, update);
  const double mu_next = nadam_momentum(beta1, update + 1);
  return {.gradient = (1 - mu) / (1 - product), .momentum = mu_next / (1 - product * mu_next)};
}

Direction matched_direction(double beta1, int64_t update, double gradient_share) {
  const Direction unbiased = adam_direction(beta1, update);
  return {.gradient = gradient_share, .momentum = (1 - gradient_share) * unbiased.momentum};
}

}  // namespace leeway
