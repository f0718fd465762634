#include "compute/stage_wire.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <tuple>

namespace leeway {
namespace {

StageWire wire_of(WireFormat format, at::ScalarType type = at::kFloat) {
  return {.format = format, .sequences = 3, .context = 10, .width = 7, .type = type};
}

TEST(StageWire, SendsNumbersAsTheyAreComputed) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const StageWire wire = wire_of(WireFormat::kF32, type);
    const at::Tensor activation = at::randn({3, 10, 7}).to(type);
    EXPECT_TRUE(wire.encoded(activation).is_same(activation));
    EXPECT_TRUE(wire.decoded(activation).is_same(activation));
    EXPECT_EQ(wire.bytes(), static_cast<int64_t>(activation.nbytes()));
  }
  const at::Tensor half = at::randn({3, 10, 7}).to(at::kBFloat16);
  EXPECT_TRUE(wire_of(WireFormat::kBf16, at::kBFloat16).encoded(half).is_same(half));
}

TEST(StageWire, SendsFewerBitsOfThem) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const auto& [format, bytes, error] :
         {std::tuple(WireFormat::kBf16, 420, 0.02), std::tuple(WireFormat::kInt8, 214, 0.03),
          std::tuple(WireFormat::kInt4, 105 + 4 * 4, 0.5)}) {
      const StageWire wire = wire_of(format, type);
      const at::Tensor activation = at::randn({3, 10, 7}).to(type);
      const at::Tensor payload = wire.encoded(activation);
      EXPECT_EQ(wire.bytes(), bytes);
      EXPECT_EQ(static_cast<int64_t>(payload.nbytes()), bytes);
      EXPECT_TRUE(wire.fits(payload));
      const at::Tensor arrived = wire.decoded(payload);
      EXPECT_EQ(arrived.scalar_type(), type);
      EXPECT_EQ(arrived.sizes(), activation.sizes());
      EXPECT_LT((arrived - activation).abs().max().item<double>(), error);
    }
  }
}

TEST(StageWire, RefusesWhatNoStageHasSent) {
  const StageWire plain = wire_of(WireFormat::kF32), int8 = wire_of(WireFormat::kInt8);
  const at::Tensor activation = at::randn({3, 10, 7});
  EXPECT_TRUE(plain.fits(activation));
  EXPECT_FALSE(plain.fits(at::Tensor()));
  EXPECT_FALSE(plain.fits(activation.to(at::kDouble)));
  EXPECT_FALSE(plain.fits(activation.slice(0, 0, 2)));
  EXPECT_FALSE(plain.fits(activation.flatten()));
  EXPECT_FALSE(plain.fits(int8.encoded(activation)));
  EXPECT_FALSE(int8.fits(activation));
  EXPECT_FALSE(int8.fits(at::Tensor()));
  EXPECT_FALSE(int8.fits(int8.encoded(activation).slice(0, 1)));
}

}  // namespace
}  // namespace leeway
