#include "averaging/wire.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace leeway {
namespace {

constexpr RandomKey kKey = {.seed = 3, .stream = Stream::kRounding, .name = 5};
const std::vector<WireFormat> kFormats = {WireFormat::kF32,  WireFormat::kBf16,
                                          WireFormat::kInt8, WireFormat::kInt8Stochastic,
                                          WireFormat::kInt4, WireFormat::kTernary};

at::Tensor round_trip(WireFormat format, const at::Tensor& values, const RandomKey& key = kKey) {
  const at::Tensor encoded = encode(format, values, key);
  EXPECT_TRUE(is_encoding(format, encoded, values.numel(), values.scalar_type()));
  return decode(format, encoded, values.numel(), values.scalar_type());
}

TEST(Wire, TernaryKeepsLargeValuesAndSendsTheirMeanMagnitude) {
  // rms = sqrt((16 + 4 + 1 + 0.01 + 0) / 5) = 2.05; values above 1.23 are kept: mean magnitude 3.
  // At a threshold of 1.7 that is 3.48, above .8 of the largest; so 4 is kept, and it alone.
  const at::Tensor values = at::tensor({4.0F, -2.0F, 1.0F, -0.1F, 0.0F});
  EXPECT_TRUE(at::equal(round_trip(WireFormat::kTernary, values),
                        at::tensor({3.0F, -3.0F, 0.0F, 0.0F, 0.0F})));
  const at::Tensor encoded = encode(WireFormat::kTernary, values, kKey, 1.7);
  EXPECT_TRUE(at::equal(decode(WireFormat::kTernary, encoded, 5, at::kFloat),
                        at::tensor({4.0F, 0.0F, 0.0F, 0.0F, 0.0F})));
}

TEST(Wire, TernaryIsNeverSilent) {
  const at::Tensor equal = at::full({700}, -0.25F);
  const at::Tensor encoded = encode(WireFormat::kTernary, equal, kKey, /*threshold=*/9);
  EXPECT_TRUE(at::equal(decode(WireFormat::kTernary, encoded, 700, at::kFloat), equal));
}

TEST(Packing, TakesAsManyBitsAsTheDigitsHave) {
  // An eighth of the numbers are not zeros: 0.5436 bits for where they are, 0.125 for their signs,
  // and 2 bytes for the scale of each block.
  constexpr int64_t kBlocks = 320;
  at::Tensor values = at::zeros({kBlocks * kTernaryBlock});
  values.masked_fill_(at::rand({values.numel()}) < 0.125, 1.0F).mul_(at::randn_like(values).sign());
  const at::Tensor blocks = encode(WireFormat::kTernary, values, kKey);
  const at::Tensor packed = pack(WireFormat::kTernary, blocks, values.numel());
  const double bits = 8.0 * static_cast<double>(packed.nbytes() - 2 * kBlocks);
  EXPECT_NEAR(bits / static_cast<double>(values.numel()), 0.6686, 0.012);
}

TEST(Packing, WhatIsNotTernaryBlocksStaysAsItIs) {
  const at::Tensor exact = at::randn({600});
  EXPECT_TRUE(at::equal(pack(WireFormat::kTernary, exact, 600), exact));
  EXPECT_TRUE(at::equal(unpack(WireFormat::kTernary, exact, 600), exact));
  const at::Tensor int8 = encode(WireFormat::kInt8, exact, kKey);
  EXPECT_TRUE(at::equal(pack(WireFormat::kInt8, int8, 600), int8));
  EXPECT_TRUE(is_packed(WireFormat::kInt8, int8, 600, at::kFloat));
  EXPECT_FALSE(is_packed(WireFormat::kTernary, int8, 600, at::kFloat));
}

TEST(Wire, TernaryPacksPlanesAsDocumented) {
  const at::Tensor encoded =
      encode(WireFormat::kTernary, at::tensor({1.0F, -1.0F, 0.0F, 1.0F, 0.0F, -1.0F, 1.0F}), kKey);
  ASSERT_EQ(encoded.numel(), 4 + 2);  // planes of two: (1, -1) (0, 1) (0, -1) (1, and padding)
  const auto* const bytes = encoded.const_data_ptr<uint8_t>();
  EXPECT_EQ(bytes[3], 0x3f);  // 1.0F, little endian
  EXPECT_EQ(bytes[4], 2 + 3 * 1 + 9 * 1 + 27 * 2 + 81 * 1);
  EXPECT_EQ(bytes[5], 0 + 3 * 2 + 9 * 0 + 27 * 1 + 81 * 1);
}

TEST(Wire, Int4PacksHalvesAsDocumented) {
  const at::Tensor encoded =
      encode(WireFormat::kInt4, at::tensor({7.0F, -7.0F, 1.0F, -2.4F, 2.6F}), kKey);
  ASSERT_EQ(encoded.numel(), 4 + 3);  // (7, -2) (-7, 3) (1, and no value)
  const auto* const bytes = encoded.const_data_ptr<uint8_t>();
  EXPECT_EQ(bytes[3], 0x3f);  // 1.0F, little endian
  EXPECT_EQ(bytes[4], 0x7 + 0xe0);
  EXPECT_EQ(bytes[5], 0x9 + 0x30);
  EXPECT_EQ(bytes[6], 0x1);
}

TEST(Wire, EachBlockHasItsOwnScale) {
  for (const WireFormat format : {WireFormat::kInt8, WireFormat::kTernary}) {
    const int64_t block = format == WireFormat::kInt8 ? kInt8Block : kTernaryBlock;
    const at::Tensor values =
        at::cat({at::full({block}, 1000.0F), at::zeros({block}), at::full({7}, -0x1p-10F)});
    EXPECT_TRUE(at::allclose(round_trip(format, values), values, 1e-6, 0));
  }
}

TEST(Wire, StochasticRoundingIsRightOnAverage) {
  const at::Tensor values = at::randn({300}, at::kDouble);
  constexpr int kDraws = 4000;
  at::Tensor sum = at::zeros_like(values);
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    sum += round_trip(WireFormat::kInt8Stochastic, values,
                      {.seed = 1, .stream = Stream::kRounding, .name = draw});
  }
  // A value's standard deviation is at most half a step; that of a mean of 4000 is 1/126 of a step.
  const at::Tensor error = (sum / kDraws - values).abs();
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 256}, {256, 300}}) {
    const double step = values.slice(0, begin, end).abs().max().item<double>() / 127;
    EXPECT_LT(error.slice(0, begin, end).max().item<double>(), 5 * step / 126);
  }
  EXPECT_FALSE(at::equal(round_trip(WireFormat::kInt8Stochastic, values),
                         round_trip(WireFormat::kInt8, values)));
}

TEST(Wire, RejectsWhatEncodeCannotProduce) {
  for (const WireFormat format : kFormats) {
    const at::Tensor encoded = encode(format, at::randn({1000}), kKey);
    EXPECT_TRUE(is_encoding(format, encoded, 1000, at::kFloat));
    // Five values fewer or more: one byte of ternary.
    EXPECT_FALSE(is_encoding(format, encoded, 995, at::kFloat));
    EXPECT_FALSE(is_encoding(format, encoded, 1005, at::kFloat));
    EXPECT_FALSE(is_encoding(format, encoded.narrow(0, 0, encoded.numel() - 1), 1000, at::kFloat));
    EXPECT_FALSE(is_encoding(format, encoded.to(at::kShort), 1000, at::kFloat));
    EXPECT_FALSE(is_encoding(format, encoded.unsqueeze(0), 1000, at::kFloat));
    EXPECT_FALSE(is_encoding(format, at::Tensor(), 1000, at::kFloat));
  }
  EXPECT_FALSE(is_encoding(WireFormat::kF32, at::randn({10}), 10, at::kDouble));
}

TEST(Wire, RejectsInvalidTernaryBytesAndScales) {
  const at::Tensor good = encode(WireFormat::kTernary, at::randn({600}), kKey);
  for (const int64_t place : {4, 106, 111, static_cast<int>(good.numel()) - 1}) {
    const at::Tensor bad = good.clone();
    bad.mutable_data_ptr<uint8_t>()[place] = 243;
    EXPECT_FALSE(is_encoding(WireFormat::kTernary, bad, 600, at::kFloat)) << place;
  }
  for (const int64_t block : {0, 107}) {
    const at::Tensor bad = good.clone();
    bad.mutable_data_ptr<uint8_t>()[block + 3] = 0x7f;  // exponent of inf and NaN
    bad.mutable_data_ptr<uint8_t>()[block + 2] = 0xff;
    EXPECT_FALSE(is_encoding(WireFormat::kTernary, bad, 600, at::kFloat)) << block;
  }
}

TEST(Wire, NonFiniteValuesStayInTheirBlock) {
  for (const float wrong : {std::nanf(""), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    const at::Tensor values = at::ones({1200});
    values.mutable_data_ptr<float>()[600] = wrong;
    for (const WireFormat format : kFormats) {
      const at::Tensor decoded = round_trip(format, values);
      EXPECT_TRUE(at::equal(decoded.slice(0, 0, 512), values.slice(0, 0, 512)));
      EXPECT_TRUE(at::equal(decoded.slice(0, 1024), values.slice(0, 1024)));
      // Ternary sends zeros for the block: its sender keeps it. The others show what is wrong.
      const bool finite = decoded[600].isfinite().item<bool>();
      EXPECT_EQ(finite, format == WireFormat::kTernary);
      if (finite) {
        EXPECT_EQ(decoded.slice(0, 512, 1024).abs().max().item<float>(), 0);
      }
    }
  }
}

TEST(Wire, ExtremeSizesDoNotBreakAScale) {
  for (const float size : {1e-44F, 1e-38F, 1e-37F, 1e30F, 3e38F}) {
    for (const WireFormat format : kFormats) {
      const at::Tensor values = at::full({300}, size);
      const at::Tensor error = (round_trip(format, values) - values).abs().max();
      EXPECT_LT(error.item<double>(), std::max(0.005 * size, 2e-36)) << size;
    }
  }
}

TEST(Wire, EmptyIsEmpty) {
  for (const WireFormat format : kFormats) {
    EXPECT_EQ(round_trip(format, at::empty({0})).numel(), 0);
    EXPECT_EQ(encoded_bytes(format, 0, at::kFloat), 0);
  }
}

TEST(Wire, SameBytesForEveryNumberOfThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor values = at::randn({400'001});
  for (const WireFormat format : kFormats) {
    at::set_num_threads(1);
    const at::Tensor alone = encode(format, values, kKey);
    const at::Tensor decoded = decode(format, alone, values.numel(), at::kFloat);
    at::set_num_threads(2);
    EXPECT_TRUE(at::equal(encode(format, values, kKey), alone));
    EXPECT_TRUE(at::equal(decode(format, alone, values.numel(), at::kFloat), decoded));
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace leeway
