// `make test-gpu` names the device: it must not pass because everything was skipped.
#include "../support/test_device.h"

namespace leeway {
namespace {

TEST(TestDevice, IsThereIfItWasAskedFor) {
  const Status found = check_device(test_device());
  if (std::getenv("LEEWAY_TEST_DEVICE") == nullptr && !found.ok()) {
    GTEST_SKIP() << found.error().message;
  }
  EXPECT_TRUE(found.ok()) << found.error().message;
}

}  // namespace
}  // namespace leeway
