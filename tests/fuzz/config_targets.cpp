// Files that people write: recipes, scenarios and their traces, comparisons.
#include <algorithm>

#include "compare/plan.h"
#include "config/print.h"
#include "simulate/cluster.h"
#include "simulate/scenario.h"
#include "target.h"

namespace leeway::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_in(const Path& folder) {
  std::vector<Path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".toml") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);  // a folder's order differs from machine to machine
  std::vector<std::string> texts;
  for (const Path& path : paths) texts.push_back(must_read(path));
  return texts;
}

std::vector<std::string> recipes(const Place& place) {
  std::vector<std::string> texts = files_in(place.sample / "recipes");
  texts.push_back(must_read(place.sample / "run/config.toml"));
  return texts;
}

void read_recipe(const Place&, std::string_view bytes) {
  const auto loaded = parse_recipe(bytes, "recipe.toml", {});
  if (!sound(loaded)) return;
  const auto again = parse_recipe(print_recipe(*loaded), "config.toml", {});
  LEEWAY_CHECK(sound(again), "a run can read the recipe that it has written");
}

std::vector<std::string> sets(const Place&) {
  return {"run.updates=60",
          "model.width = 64",
          "data.train=[\"a\", \"b\"]",
          "averaging.method=allreduce",
          "optimizer.rate=3e-3",
          "pipeline.schedule=\"1f1b\""};
}

void read_set(const Place&, std::string_view bytes) {
  sound(parse_recipe("[data]\ntrain = \"corpus\"\n", "recipe.toml", {std::string(bytes)}));
}

std::vector<std::string> scenarios(const Place& place) {
  return files_in(place.sample / "recipes/scenarios");
}

void read_scenario(const Place& place, std::string_view bytes) {
  const auto scenario = parse_scenario(bytes, place.sample / "recipes/scenarios/x.toml", {});
  if (!sound(scenario)) return;
  cluster_of(*scenario);
  sound(scenario->recipe_with({}));
}

std::vector<std::string> traces(const Place&) {
  return {"0,100,20\n1.5,50,30\n60,8,200\n", "# seconds, megabits\n0, 100\n10, 1\n"};
}

constexpr std::string_view kTraced = R"(
[[site]]
name = "a"
[[site]]
name = "b"
[[link]]
between = ["a", "b"]
trace = "trace.csv"
[[machine]]
name = "m"
count = 2
site = "a"
tflops = 1
memory_gb = 1
[[machine]]
name = "n"
count = 2
site = "b"
tflops = 1
memory_gb = 1
[simulate]
vocabulary = 100
[data]
train = "x"
[mesh]
stages = 2
replicas = 2
)";

void read_trace(const Place& place, std::string_view bytes) {
  must_write(place.scratch / "trace.csv", bytes);
  const auto scenario = parse_scenario(kTraced, place.scratch / "scenario.toml", {});
  if (sound(scenario)) cluster_of(*scenario);
}

std::vector<std::string> comparisons(const Place& place) {
  return files_in(place.sample / "recipes/compare");
}

void read_comparison(const Place& place, std::string_view bytes) {
  if (!fs::exists(place.scratch / "recipes")) {  // a comparison names a recipe beside it
    fs::copy(place.sample / "recipes", place.scratch / "recipes", fs::copy_options::recursive);
  }
  const Path file = place.scratch / "recipes/compare/x.toml";
  must_write(file, bytes);
  const auto text = load_comparison(file, {});
  if (sound(text)) sound(plan_comparison(*text));
}

}  // namespace

std::vector<Target> config_targets() {
  return {{"recipe", recipes, read_recipe},
          {"set", sets, read_set},
          {"scenario", scenarios, read_scenario},
          {"trace", traces, read_trace},
          {"comparison", comparisons, read_comparison}};
}

}  // namespace leeway::fuzz
