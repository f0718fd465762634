// One file per sub-command. Each registers itself and, when chosen, stores its action in `chosen`.
#pragma once

#include <functional>

#include "base/result.h"

namespace CLI {
class App;
}

namespace leeway::cli {

// Runs after parsing, outside CLI11's callbacks, so errors are values, not exceptions.
using Action = std::function<Status()>;

void add_train(CLI::App& app, Action& chosen);
void add_resume(CLI::App& app, Action& chosen);
void add_launch(CLI::App& app, Action& chosen);
void add_coordinate(CLI::App& app, Action& chosen);
void add_join(CLI::App& app, Action& chosen);
void add_eval(CLI::App& app, Action& chosen);
void add_generate(CLI::App& app, Action& chosen);
void add_replay(CLI::App& app, Action& chosen);
void add_merge(CLI::App& app, Action& chosen);
void add_reshape(CLI::App& app, Action& chosen);
void add_report(CLI::App& app, Action& chosen);
void add_dashboard(CLI::App& app, Action& chosen);
void add_timeline(CLI::App& app, Action& chosen);
void add_compare(CLI::App& app, Action& chosen);
void add_simulate(CLI::App& app, Action& chosen);
void add_plan(CLI::App& app, Action& chosen);
void add_data(CLI::App& app, Action& chosen);
void add_config(CLI::App& app, Action& chosen);
void add_keys(CLI::App& app, Action& chosen);
void add_version(CLI::App& app, Action& chosen);

}  // namespace leeway::cli
