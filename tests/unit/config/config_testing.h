// Helpers to load a recipe, or get its error, in the tests of config/.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"

namespace leeway {

inline constexpr std::string_view kSmallest = "data.train = 'text.txt'\n";

// Loads a recipe that must be valid; `rest` follows the one line that every recipe needs.
inline LoadedRecipe loaded_from(std::string_view rest, const std::vector<std::string>& sets = {}) {
  auto loaded = parse_recipe(std::string(kSmallest).append(rest), "test.toml", sets);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? *loaded : LoadedRecipe{};
}

// The error of an invalid recipe. `rest` starts in line 2.
inline std::string error_of(std::string_view rest, const std::vector<std::string>& sets = {}) {
  const auto loaded = parse_recipe(std::string(kSmallest).append(rest), "test.toml", sets);
  if (loaded.ok()) return "no error";
  EXPECT_EQ(loaded.error().kind, ErrorKind::kUsage);
  return loaded.error().message;
}

}  // namespace leeway
