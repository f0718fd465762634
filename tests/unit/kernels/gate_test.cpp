#include "kernels/gate.h"

#include <gtest/gtest.h>

#include <limits>

namespace leeway {
namespace {

double field(const at::Tensor& gate, GateField which) { return gate[which].item<double>(); }

TEST(Gate, ClipsByTheSumOfTheNorms) {
  const at::Tensor gate = make_gate(at::kCPU);
  set_gate({.norms = at::tensor({9.0, 16.0}, at::kDouble), .clip = 1}, gate);
  EXPECT_NEAR(field(gate, kGateScale), 0.2, 1e-6);
  EXPECT_EQ(field(gate, kGateOpen), 1);
  EXPECT_EQ(field(gate, kGateNorm), 25);
  EXPECT_EQ(field(gate, kGateTotal), 25);
}

TEST(Gate, ClipsByTheWholeModelsNormIfItIsKnown) {
  const at::Tensor gate = make_gate(at::kCPU);
  set_gate({.norms = at::tensor({9.0}, at::kDouble),
            .total = at::full({1}, 100.0, at::kDouble),
            .clip = 1},
           gate);
  EXPECT_NEAR(field(gate, kGateScale), 0.1, 1e-6);
  EXPECT_EQ(field(gate, kGateNorm), 9);
}

TEST(Gate, AFactorComesBeforeClipping) {
  const at::Tensor gate = make_gate(at::kCPU);
  set_gate({.norms = at::tensor({25.0}, at::kDouble), .clip = 100, .factor = 3}, gate);
  EXPECT_EQ(field(gate, kGateScale), 3);
  set_gate({.norms = at::tensor({25.0}, at::kDouble), .clip = 3, .factor = 3}, gate);
  EXPECT_NEAR(field(gate, kGateScale), 3 * 3.0 / 15, 1e-6);
}

TEST(Gate, ClosesForGoodOnAnythingThatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor fine = at::tensor({1.0}, at::kDouble);
  const at::Tensor losses = at::tensor({2.0, 4.0});
  at::Tensor gate = make_gate(at::kCPU);
  set_gate({.norms = fine, .losses = losses}, gate);
  EXPECT_EQ(field(gate, kGateOpen), 1);
  EXPECT_EQ(field(gate, kGateLoss), 3);
  set_gate({.norms = fine, .losses = losses / 0}, gate);
  EXPECT_EQ(field(gate, kGateOpen), 0);
  set_gate({.norms = fine, .losses = losses}, gate);
  EXPECT_EQ(field(gate, kGateOpen), 0);
  gate = make_gate(at::kCPU);
  set_gate({.norms = at::tensor({1.0, -infinity + infinity}, at::kDouble)}, gate);
  EXPECT_EQ(field(gate, kGateOpen), 0);
}

}  // namespace
}  // namespace leeway
