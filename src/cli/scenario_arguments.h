// What the sub-commands that read a scenario share.
#pragma once

#include <string>
#include <vector>

#include "config/scenario.h"

namespace CLI {
class App;
}

namespace leeway::cli {

struct ScenarioArguments {
  std::string file;
  std::vector<std::string> sets;
};

// Registers SCENARIO and --set; `arguments` must outlive the parsing.
void add_scenario_arguments(CLI::App& command, ScenarioArguments& arguments);

// The scenario's own, or that of the recipe's data.
Result<int64_t> scenario_vocabulary(const Scenario& scenario, const Recipe& recipe);

}  // namespace leeway::cli
