#include "simulate/scenario_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/replica_set.h"
#include "config/nearest.h"

namespace leeway {
namespace {

// Far above any real value: these catch typos and keep times within 64 bits.
constexpr double kMillion = 1e6;
constexpr double kBillion = 1e9;

template <class T>
std::string allowed(const ScenarioKey<T>& key) {
  if (std::holds_alternative<bool T::*>(key.member)) return "true or false";
  if (std::holds_alternative<std::string T::*>(key.member)) return "a non-empty string";
  if (std::holds_alternative<std::vector<std::string> T::*>(key.member)) return "a list of strings";
  if (std::holds_alternative<std::vector<int64_t> T::*>(key.member))
    return fmt::format("a list of whole numbers from {:g}, at most {:g}", key.min, key.max);
  const bool whole = std::holds_alternative<int64_t T::*>(key.member);
  return fmt::format("a {}number {} {:g}, at most {:.15g}", whole ? "whole " : "",
                     key.above ? "above" : "from", key.min, key.max);
}

template <class T>
bool in_range(const ScenarioKey<T>& key, double number) {
  return std::isfinite(number) && number <= key.max &&
         (key.above ? number > key.min : number >= key.min);
}

template <class T>
bool set_member(const ScenarioKey<T>& key, const Value& value, T& object) {
  const auto* const whole = std::get_if<int64_t>(&value);
  const auto* const real = std::get_if<double>(&value);
  const auto* const text = std::get_if<std::string>(&value);
  if (const auto* member = std::get_if<double T::*>(&key.member)) {
    if (whole == nullptr && real == nullptr) return false;
    const double number = whole != nullptr ? static_cast<double>(*whole) : *real;
    if (!in_range(key, number)) return false;
    object.** member = number;
    return true;
  }
  if (const auto* member = std::get_if<int64_t T::*>(&key.member)) {
    if (whole == nullptr || !in_range(key, static_cast<double>(*whole))) return false;
    object.** member = *whole;
    return true;
  }
  if (const auto* member = std::get_if<bool T::*>(&key.member)) {
    const auto* const flag = std::get_if<bool>(&value);
    if (flag != nullptr) object.** member = *flag;
    return flag != nullptr;
  }
  if (const auto* member = std::get_if<std::string T::*>(&key.member)) {
    if (text == nullptr || text->empty()) return false;
    object.** member = *text;
    return true;
  }
  if (const auto* member = std::get_if<std::vector<int64_t> T::*>(&key.member)) {
    const auto* const numbers = std::get_if<std::vector<double>>(&value);
    const auto fits = [&](double number) {
      return in_range(key, number) && number == std::floor(number);
    };
    if (numbers == nullptr || !std::ranges::all_of(*numbers, fits)) return false;
    (object.**member).assign(numbers->begin(), numbers->end());
    return true;
  }
  const auto member = std::get<std::vector<std::string> T::*>(key.member);
  const auto* const list = std::get_if<std::vector<std::string>>(&value);
  if (list != nullptr) object.*member = *list;
  return list != nullptr;
}

}  // namespace

const std::vector<std::string_view>& scenario_words() {
  static const std::vector<std::string_view> words = {"recipe", "simulate", "machine", "site",
                                                      "link",   "stall",    "join",    "departure",
                                                      "churn",  "method"};
  return words;
}

bool is_scenario_word(std::string_view word) {
  return std::ranges::find(scenario_words(), word) != scenario_words().end();
}

template <>
const std::vector<ScenarioKey<ScenarioOptions>>& scenario_keys() {
  static const std::vector<ScenarioKey<ScenarioOptions>> keys = {
      {"updates", &ScenarioOptions::updates, 0, kMillion},
      {"vocabulary", &ScenarioOptions::vocabulary, 0, kBillion},
      {"math", &ScenarioOptions::math},
      {"target_loss", &ScenarioOptions::target_loss, 0, 1000},
      {"stand_in", &ScenarioOptions::stand_in},
      {"evaluation", &ScenarioOptions::evaluation},
      {"placement", &ScenarioOptions::placement},
      {"replicas", &ScenarioOptions::replicas, 1, ReplicaSet::kReplicasMax},
      {"tokens_per_update", &ScenarioOptions::tokens_per_update, 1, 1e12}};
  return keys;
}

template <>
const std::vector<ScenarioKey<MachineGroup>>& scenario_keys() {
  static const std::vector<ScenarioKey<MachineGroup>> keys = {
      {"name", &MachineGroup::name, 0, 0, false, true},
      {"count", &MachineGroup::count, 1, kMillion},
      {"site", &MachineGroup::site, 0, 0, false, true},
      {"tflops", &MachineGroup::tflops, 1e-6, kMillion, false, true},
      {"update_tflops", &MachineGroup::update_tflops, 1e-6, kMillion},
      {"memory_gb", &MachineGroup::memory_gb, 0, kMillion, true, true},
      {"price_per_hour", &MachineGroup::price_per_hour, 0, kMillion},
      {"workers", &MachineGroup::workers, 1, 4096},
      {"cores", &MachineGroup::cores, 0, 4096}};
  return keys;
}

template <>
const std::vector<ScenarioKey<Site>>& scenario_keys() {
  static const std::vector<ScenarioKey<Site>> keys = {
      {"name", &Site::name, 0, 0, false, true},
      {"latency_ms", &Site::latency_ms, 0, kMillion},
      {"bandwidth_mbit", &Site::bandwidth_mbit, 0, kBillion, true},
      {"jitter_ms", &Site::jitter_ms, 0, kMillion},
      {"uplink_mbit", &Site::uplink_mbit, 0, kBillion, true},
      {"downlink_mbit", &Site::downlink_mbit, 0, kBillion, true}};
  return keys;
}

template <>
const std::vector<ScenarioKey<SiteLink>>& scenario_keys() {
  static const std::vector<ScenarioKey<SiteLink>> keys = {
      {"between", &SiteLink::between, 0, 0, false, true},
      {"latency_ms", &SiteLink::latency_ms, 0, kMillion},
      {"bandwidth_mbit", &SiteLink::bandwidth_mbit, 0, kBillion, true},
      {"jitter_ms", &SiteLink::jitter_ms, 0, kMillion},
      {"trace", &SiteLink::trace}};
  return keys;
}

template <>
const std::vector<ScenarioKey<MachineEvent>>& scenario_keys() {
  static const std::vector<ScenarioKey<MachineEvent>> keys = {
      {"machine", &MachineEvent::machine, 0, 0, false, true},
      {"at_s", &MachineEvent::at_s, 0, kBillion, false, true},
      {"for_s", &MachineEvent::for_s, 0, kBillion}};
  return keys;
}

template <>
const std::vector<ScenarioKey<Churn>>& scenario_keys() {
  static const std::vector<ScenarioKey<Churn>> keys = {
      {"up_s", &Churn::up_s, 0, kBillion, true, true},
      {"down_s", &Churn::down_s, 0, kBillion, true, true},
      {"seed", &Churn::seed, 0, 1e18}};
  return keys;
}

template <>
const std::vector<ScenarioKey<Method>>& scenario_keys() {
  static const std::vector<ScenarioKey<Method>> keys = {{"name", &Method::name, 0, 0, false, true},
                                                        {"set", &Method::set, 0, 0, false, true}};
  return keys;
}

template <class T>
Status assign_scenario_key(std::string_view table, std::string_view name, const Value& value,
                           T& object) {
  std::vector<std::string_view> names;
  for (const ScenarioKey<T>& key : scenario_keys<T>()) {
    names.push_back(key.name);
    if (key.name != name) continue;
    if (set_member(key, value, object)) return {};
    return usage_error(fmt::format("{}.{} is {}, allowed: {}", table, name,
                                   shown(toml_text(value), kShortBytes), allowed(key)));
  }
  return usage_error(fmt::format(
      "unknown key {}.{}{}", table, shown(name, kShortBytes),
      did_you_mean(name, names,
                   fmt::format("; the keys of {} are {}", table, fmt::join(names, ", ")))));
}

#define LEEWAY_SCENARIO_TABLE(T)                                                     \
  template Status assign_scenario_key(std::string_view table, std::string_view name, \
                                      const Value& value, T& object)
LEEWAY_SCENARIO_TABLE(ScenarioOptions);
LEEWAY_SCENARIO_TABLE(MachineGroup);
LEEWAY_SCENARIO_TABLE(Site);
LEEWAY_SCENARIO_TABLE(SiteLink);
LEEWAY_SCENARIO_TABLE(MachineEvent);
LEEWAY_SCENARIO_TABLE(Churn);
LEEWAY_SCENARIO_TABLE(Method);
#undef LEEWAY_SCENARIO_TABLE

}  // namespace leeway
