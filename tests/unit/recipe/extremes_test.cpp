// Every key at the ends of its range and far outside, alone and with others: an answer, not a
// crash, an overflow or a wait.
#include <gtest/gtest.h>

#include <cmath>

#include "config/keys.h"
#include "config/load.h"
#include "recipe/mesh_report.h"
#include "recipe/thread_check.h"

namespace leeway {
namespace {

constexpr int64_t kVocabulary = 257;

std::vector<std::string> values_of(const Key& key) {
  std::vector<std::string> values = {
      "0", "-1", "1", "2", "2147483648", "1e308", "4611686018427387904", "nan", "inf"};
  if (const auto* whole = std::get_if<WholeField>(&key.field)) {
    values.push_back(std::to_string(whole->min));
    values.push_back(std::to_string(whole->max));
  }
  if (const auto* number = std::get_if<NumberField>(&key.field)) {
    values.push_back(toml_text(Value(number->max)));
    values.push_back(toml_text(Value(std::nextafter(number->max, 0))));
    values.push_back("5e-324");
  }
  return values;
}

// Returns whether the recipe is one that could run somewhere.
bool answered(const std::vector<std::string>& sets) {
  const auto loaded = parse_recipe("data.train = 'x'", "test.toml", sets);
  if (!loaded.ok()) return false;
  static_cast<void>(check_threads(*loaded, 2));
  const auto report = pipeline_report(*loaded, kVocabulary);
  return report.ok();
}

const std::vector<std::vector<std::string>> kMeshes = {
    {},
    {"mesh.stages=4", "mesh.replicas=2", "averaging.merge=fixed_lag"},
    {"mesh.stages=4", "mesh.replicas=2", "averaging.method=lowbit", "run.driver=sim",
     "sim.latency_ms=20"},
    {"mesh.stages=4", "pipeline.update_every=1", "run.driver=sim", "sim.bandwidth_mbit=1"},
    {"mesh.stages=4096", "model.layers=4096", "data.batch=4096"},
    {"mesh.stages=4096", "model.layers=4096", "data.batch=1", "pipeline.update_every=1"},
};

TEST(Extremes, OfEveryKeyAreAnswered) {
  int accepted = 0;
  for (size_t mesh = 0; mesh < 4; ++mesh) {
    for (const Key& key : keys()) {
      for (const std::string& value : values_of(key)) {
        std::vector<std::string> sets = kMeshes[mesh];
        sets.push_back(std::string(key.path) + "=" + value);
        accepted += answered(sets) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(accepted, 300);
}

// The largest values of all keys that make a run larger, one on top of the other.
TEST(Extremes, TogetherAreAnswered) {
  for (std::vector<std::string> sets : kMeshes) {
    for (const std::string_view path :
         {"model.width", "model.hidden", "model.context", "data.batch", "mesh.replicas",
          "pipeline.extra_per_hop", "pipeline.update_every", "pipeline.refresh", "run.updates",
          "averaging.interval", "averaging.lag", "averaging.granularity"}) {
      const Field& field = find_key(path)->field;
      const auto* const whole = std::get_if<WholeField>(&field);
      const std::string most = whole != nullptr ? std::to_string(whole->max)
                                                : std::to_string(std::get<NumberField>(field).max);
      answered({std::string(path) + "=" + most});
      sets.push_back(std::string(path) + "=" + most);
      answered(sets);
    }
  }
}

}  // namespace
}  // namespace leeway
