// LibTorch's generator starts from a random seed. This seeds it before every test, so that a
// failure can be repeated. Linked into every test program that uses LibTorch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace {

class SeedEveryTest : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { at::manual_seed(7); }
};

const bool registered = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SeedEveryTest);  // gtest owns it
  return true;
}();

}  // namespace
