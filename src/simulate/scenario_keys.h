// The table of all scenario keys other than the recipe's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "config/value.h"
#include "simulate/scenario.h"

namespace leeway {

template <class T>
struct ScenarioKey {
  std::string_view name;
  std::variant<double T::*, int64_t T::*, bool T::*, std::string T::*,
               std::vector<std::string> T::*, std::vector<int64_t> T::*>
      member;
  double min = 0;  // of a number, or of each in a list
  double max = 0;
  bool above = false;  // `min` itself is not allowed
  bool required = false;
};

// "simulate", "machine" and so on; other tables belong to the recipe.
bool is_scenario_word(std::string_view word);
const std::vector<std::string_view>& scenario_words();

template <class T>
const std::vector<ScenarioKey<T>>& scenario_keys();

// Sets one key of `table`; an error says why not.
template <class T>
Status assign_scenario_key(std::string_view table, std::string_view name, const Value& value,
                           T& object);

}  // namespace leeway
