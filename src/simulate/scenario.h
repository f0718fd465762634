// A checked scenario: machines, the links between them, what happens to them, and the recipe and
// methods that `leeway simulate` and `leeway plan` try on them (docs/simulate.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "config/load.h"

namespace leeway {

struct ScenarioOptions {
  int64_t updates = 0;     // simulated for each method; 0: as many as the numbers take
  int64_t vocabulary = 0;  // 0: of the recipe's data
  bool math = false;       // train for real, in simulated time
  double target_loss = 0;  // of math: the time to it is told; 0: none
  // Of math: overrides that make the recipe one which this machine can train. Time and bytes stay
  // those of the recipe without them.
  std::vector<std::string> stand_in;
  bool evaluation = false;         // of math = false: simulate the recipe's evaluations too
  std::string placement = "rows";  // rows: machines in their order make pipelines; columns: stages
  int64_t tokens_per_update = 524'288;  // of plan: at most, over all replicas
};

// `count` machines of one kind; those of more than one are "name-1", "name-2" and so on.
struct MachineGroup {
  std::string name;
  int64_t count = 1;
  std::string site;
  double tflops = 0;         // achieved, by one worker
  double update_tflops = 0;  // the same in an optimizer's step; 0: as tflops
  double memory_gb = 0;
  double price_per_hour = 0;
  int64_t workers = 1;  // that stand on a machine
  int64_t cores = 0;    // workers that can be at work at once; 0: all
  int64_t line = 0;
};

// Its machines reach each other so; each has one line for all that it sends, one for what it gets.
struct Site {
  std::string name;
  double latency_ms = 0;
  double bandwidth_mbit = 0;  // of a pair of machines; 0: no limit
  double jitter_ms = 0;
  double uplink_mbit = 0;    // of a machine; 0: no limit
  double downlink_mbit = 0;  // likewise
  int64_t line = 0;
};

// Recorded: what a link was like from a moment on.
struct TracePoint {
  double seconds = 0;
  double bandwidth_mbit = 0;
  double latency_ms = 0;
};

// Between machines of two sites, or between two machines.
struct SiteLink {
  std::vector<std::string> between;
  double latency_ms = 0;
  double bandwidth_mbit = 0;
  double jitter_ms = 0;
  std::string trace;  // a file
  std::vector<TracePoint> points;
  int64_t line = 0;
};

// Something that happens to a machine, or to all of a group.
struct MachineEvent {
  std::string machine;
  double at_s = 0;
  double for_s = 0;  // of a stall
  int64_t line = 0;
};

// Machines that are taken away and replaced, again and again.
struct Churn {
  double up_s = 0;  // in the mean; 0: never taken away
  double down_s = 0;
  int64_t seed = 1;
};

// What is tried: overrides of the recipe.
struct Method {
  std::string name;
  std::vector<std::string> set;
  int64_t line = 0;
};

struct Scenario {
  std::string source_name;
  ScenarioOptions options;
  std::vector<MachineGroup> machines;
  std::vector<Site> sites;
  std::vector<SiteLink> links;
  std::vector<MachineEvent> stalls;
  std::vector<MachineEvent> joins;
  std::vector<MachineEvent> departures;
  Churn churn;
  std::vector<Method> methods;      // empty: those that default_methods() names
  std::vector<RecipeLayer> recipe;  // the file that it names, and its own tables
  std::vector<std::string> sets;    // of the recipe, from the command line

  int64_t machine_count() const;
  int64_t worker_count() const;  // that its machines have room for
  // The recipe with these overrides, and on top of them those of the command line.
  Result<LoadedRecipe> recipe_with(const std::vector<std::string>& overrides) const;
  // What simulate.math trains: the same with options.stand_in on top of all. An error where that
  // and the command line set the same key.
  Result<LoadedRecipe> trained_with(const std::vector<std::string>& overrides) const;
};

// All errors are the user's. `sets`: of the recipe's keys, or of simulate.KEY.
Result<Scenario> load_scenario(const Path& path, const std::vector<std::string>& sets);
Result<Scenario> parse_scenario(std::string_view toml, const Path& path,
                                const std::vector<std::string>& sets);

// The synchronous run first, then without waiting on one axis and on both.
std::vector<Method> default_methods(const LoadedRecipe& recipe);

}  // namespace leeway
