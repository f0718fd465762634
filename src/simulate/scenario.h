// A checked scenario: machines, their links and events, and the recipe and methods that
// `leeway simulate` and `leeway plan` try on them (docs/simulate.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "config/load.h"

namespace leeway {

struct ScenarioOptions {
  int64_t updates = 0;     // simulated per method; 0: as many as a steady result needs
  int64_t vocabulary = 0;  // 0: that of the recipe's data
  bool math = false;       // really train, in simulated time
  double target_loss = 0;  // with math: report the time to reach it; 0: none
  // With math: overrides that make the model small enough for this machine to train. Time and bytes
  // remain those of the recipe without them.
  std::vector<std::string> stand_in;
  bool evaluation = false;         // without math: simulate the recipe's evaluations too
  std::string placement = "rows";  // rows: neighbouring machines make pipelines; columns: stages
  std::vector<int64_t> replicas;   // every method with each of these; empty: the recipe's
  int64_t tokens_per_update = 524'288;  // for plan: the most, over all replicas
};

// `count` machines of one kind; several are called "name-1", "name-2" and so on.
struct MachineGroup {
  std::string name;
  int64_t count = 1;
  std::string site;
  double tflops = 0;         // achieved by one worker
  double update_tflops = 0;  // in an optimizer step and in averaging; 0: same as tflops
  double memory_gb = 0;
  double price_per_hour = 0;
  int64_t workers = 1;  // per machine
  int64_t cores = 0;    // workers that can compute at the same time; 0: all
  int64_t line = 0;
};

// How its machines are connected. Each has one line for all it sends and one for all it receives.
struct Site {
  std::string name;
  double latency_ms = 0;
  double bandwidth_mbit = 0;  // per pair of machines; 0: no limit
  double jitter_ms = 0;
  double uplink_mbit = 0;    // per machine; 0: no limit
  double downlink_mbit = 0;  // per machine; 0: no limit
  int64_t line = 0;
};

// One line of a trace: the state of a link from a moment on.
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
  std::string trace;  // file name
  std::vector<TracePoint> points;
  int64_t line = 0;
};

// An event of a machine, or of all machines of a group.
struct MachineEvent {
  std::string machine;
  double at_s = 0;
  double for_s = 0;  // stalls only
  int64_t line = 0;
};

// Machines are taken away and replaced repeatedly.
struct Churn {
  double up_s = 0;  // on average; 0: never taken away
  double down_s = 0;
  int64_t seed = 1;
};

// A method to try: overrides of the recipe.
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
  std::vector<Method> methods;      // empty: default_methods()
  std::vector<RecipeLayer> recipe;  // the file it names, and its own tables
  std::vector<std::string> sets;    // for the recipe, from the command line

  int64_t worker_count() const;  // room on all machines
  // The recipe with these overrides, then those of the command line.
  Result<LoadedRecipe> recipe_with(const std::vector<std::string>& overrides) const;
  // What simulate.math trains: the same, then options.stand_in. An error if that and the command
  // line set the same key.
  Result<LoadedRecipe> trained_with(const std::vector<std::string>& overrides) const;
};

// All errors are usage errors. `sets`: overrides of recipe keys or of simulate.KEY.
Result<Scenario> load_scenario(const Path& path, const std::vector<std::string>& sets);
Result<Scenario> parse_scenario(std::string_view toml, const Path& path,
                                const std::vector<std::string>& sets);

// The synchronous method first, then asynchronous on one axis and on both.
std::vector<Method> default_methods(const LoadedRecipe& recipe);

}  // namespace leeway
