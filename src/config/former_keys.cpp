#include "config/former_keys.h"

#include <algorithm>

namespace leeway {
namespace {

constexpr FormerKey kFormerKeys[] = {
    {.path = "averaging.repair_every"},  // replicas with a common model need no repair
    {.path = "sim.faults", .now = "run.faults"},
    {.path = "sim.lost_replica"},  // meant nothing without the next one
    {.path = "sim.lost_at", .advice = "run.faults = [\"replica 1 lost at 200\"]"},
    {.path = "sim.coordinator_lost_at", .advice = "run.faults = [\"coordinator lost at 200\"]"},
};

}  // namespace

const FormerKey* find_former_key(std::string_view path) {
  const auto found = std::ranges::find(kFormerKeys, path, &FormerKey::path);
  return found == std::end(kFormerKeys) ? nullptr : &*found;
}

bool said_nothing(const FormerKey& key, const Value& value) {
  return key.advice.empty() || value == Value(int64_t{0});
}

}  // namespace leeway
