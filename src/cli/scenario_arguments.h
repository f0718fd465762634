// The arguments of every sub-command that reads a scenario.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "simulate/scenario.h"

namespace CLI {
class App;
}

namespace leeway::cli {

struct ScenarioArguments {
  std::string file;
  std::vector<std::string> sets;
  bool calibrate = false;
};

// Registers SCENARIO, --set and --calibrate; `arguments` must outlive the parsing.
void add_scenario_arguments(CLI::App& command, ScenarioArguments& arguments);

// An error if a --set begins with one of `keys`, which would have no effect; `why` says why not.
Status refuse_sets(const ScenarioArguments& arguments, const std::vector<std::string_view>& keys,
                   std::string_view why);

// The scenario, with its machines measured if --calibrate was given.
Result<Scenario> load_machines(const ScenarioArguments& arguments, const Clock& clock);

// The scenario's own vocabulary, or that of the recipe's data.
Result<int64_t> scenario_vocabulary(const Scenario& scenario, const Recipe& recipe);

}  // namespace leeway::cli
