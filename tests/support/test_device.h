// The device of tests/gpu: a GPU, or what LEEWAY_TEST_DEVICE names ("cpu" tries the tests
// themselves where there is no GPU).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "run/device.h"

namespace leeway {

inline std::string test_device() {
  const char* const given = std::getenv("LEEWAY_TEST_DEVICE");
  return given == nullptr ? "cuda" : given;
}

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    const Status found = check_device(test_device());
    if (!found.ok()) GTEST_SKIP() << found.error().message;
  }
};

}  // namespace leeway
