#include "simulate/scenario_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "config/nearest.h"

namespace leeway {
namespace {

constexpr double kStepMin = 1e-3;   // seconds between lines of a trace
constexpr double kRateMin = 1e-3;   // megabits per second, on average
constexpr double kNumberMax = 1e9;  // largest value in a trace: megabits, milliseconds, seconds

Error mistake(const Scenario& scenario, int64_t line, std::string_view what) {
  return usage_error(fmt::format("{}:{}: {}", shown(scenario.source_name), line, what));
}

std::string advice(std::string_view word, const std::vector<std::string>& names) {
  return did_you_mean(word, {names.begin(), names.end()});
}

std::vector<std::string> site_names(const Scenario& scenario) {
  std::vector<std::string> names;
  for (const Site& site : scenario.sites) names.push_back(site.name);
  return names;
}

// Names of groups, and of single machines in groups.
std::vector<std::string> machine_names(const Scenario& scenario) {
  std::vector<std::string> names;
  for (const MachineGroup& group : scenario.machines) {
    names.push_back(group.name);
    for (int64_t at = 1; group.count > 1 && at <= group.count; ++at)
      names.push_back(fmt::format("{}-{}", group.name, at));
  }
  return names;
}

bool is_one_of(std::string_view word, const std::vector<std::string>& names) {
  return std::ranges::find(names, word) != names.end();
}

Status check_machines(const Scenario& scenario) {
  constexpr int64_t kMachinesMax = 1'000'000;
  if (scenario.machines.empty())
    return usage_error(
        fmt::format("{}: no machines: add some with [[machine]]", shown(scenario.source_name)));
  const std::vector<std::string> sites = site_names(scenario);
  std::set<std::string> seen;
  for (const Site& site : scenario.sites) {
    if (!seen.insert(site.name).second)
      return mistake(scenario, site.line,
                     fmt::format("two sites are called {}", toml_quoted(site.name)));
  }
  int64_t count = 0;
  for (const MachineGroup& group : scenario.machines) {
    count += group.count;
    if (count > kMachinesMax) return mistake(scenario, group.line, "more than 1000000 machines");
    if (!is_one_of(group.site, sites))
      return mistake(
          scenario, group.line,
          fmt::format("machine {} is at unknown site {}{}", toml_quoted(group.name),
                      toml_quoted(group.site),
                      sites.empty() ? ": describe it with [[site]]" : advice(group.site, sites)));
  }
  std::vector<std::string> names = machine_names(scenario);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return usage_error(fmt::format("{}: two machines are called {}: give each group its own name",
                                 shown(scenario.source_name), toml_quoted(*twice)));
}

Status check_events(const Scenario& scenario) {
  const std::vector<std::string> names = machine_names(scenario);
  for (const auto* events : {&scenario.stalls, &scenario.joins, &scenario.departures}) {
    for (const MachineEvent& event : *events) {
      if (!is_one_of(event.machine, names))
        return mistake(scenario, event.line,
                       fmt::format("there is no machine {}{}", toml_quoted(event.machine),
                                   advice(event.machine, names)));
    }
  }
  for (const auto* events : {&scenario.joins, &scenario.departures}) {
    for (const MachineEvent& event : *events) {
      if (event.for_s != 0)
        return mistake(scenario, event.line,
                       "for_s is only for stalls: use [[stall]] for a machine that comes back");
    }
  }
  for (const MachineEvent& stall : scenario.stalls) {
    if (stall.for_s == 0)
      return mistake(scenario, stall.line, "a stall needs for_s, its length in seconds");
  }
  return {};
}

Status check_links(const Scenario& scenario) {
  std::vector<std::string> names = site_names(scenario);
  const std::vector<std::string> machines = machine_names(scenario);
  names.insert(names.end(), machines.begin(), machines.end());
  std::set<std::set<std::string>> seen;
  for (const SiteLink& link : scenario.links) {
    if (link.between.size() != 2)
      return mistake(scenario, link.line, "a link has two ends: write between = [\"a\", \"b\"]");
    for (const std::string& end : link.between) {
      if (!is_one_of(end, names))
        return mistake(
            scenario, link.line,
            fmt::format("there is no site or machine {}{}", toml_quoted(end), advice(end, names)));
    }
    if (is_one_of(link.between[0], machines) != is_one_of(link.between[1], machines))
      return mistake(scenario, link.line,
                     "a link connects two sites or two machines, not one of each");
    if (!link.trace.empty() && link.bandwidth_mbit != 0)
      return mistake(scenario, link.line, "a link has either a trace or bandwidth_mbit: keep one");
    if (!seen.insert({link.between[0], link.between[1]}).second)
      return mistake(scenario, link.line,
                     fmt::format("there are two links between {} and {}: keep one",
                                 toml_quoted(link.between[0]), toml_quoted(link.between[1])));
  }
  return {};
}

bool joins(const SiteLink& link, std::string_view a, std::string_view b) {
  return (link.between[0] == a && link.between[1] == b) ||
         (link.between[0] == b && link.between[1] == a);
}

// Every two sites with machines need a link.
Status check_reachable(const Scenario& scenario) {
  for (size_t a = 0; a < scenario.machines.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const MachineGroup& here = scenario.machines[a];
      const MachineGroup& there = scenario.machines[b];
      if (here.site == there.site) continue;
      const auto leads = [&](const SiteLink& link) { return joins(link, here.site, there.site); };
      if (std::ranges::any_of(scenario.links, leads)) continue;
      return mistake(
          scenario, here.line,
          fmt::format("machine {} at {} cannot be reached from {} at {}: add a [[link]] with "
                      "between = [{}, {}]",
                      toml_quoted(here.name), toml_quoted(here.site), toml_quoted(there.name),
                      toml_quoted(there.site), toml_quoted(there.site), toml_quoted(here.site)));
    }
  }
  return {};
}

std::optional<double> number_in(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = code == std::errc() && end == text.data() + text.size() && !text.empty();
  if (!whole || !std::isfinite(number) || number < 0 || number > kNumberMax) return std::nullopt;
  return number;
}

std::optional<TracePoint> point_in(std::string_view line) {
  std::vector<double> numbers;
  while (true) {
    const size_t comma = line.find(',');
    const auto number = number_in(line.substr(0, comma));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (comma == std::string_view::npos) break;
    line.remove_prefix(comma + 1);
  }
  if (numbers.size() < 2 || numbers.size() > 3) return std::nullopt;
  return TracePoint{numbers[0], numbers[1], numbers.size() > 2 ? numbers[2] : -1};
}

// The last point is taken to last as long as the one before it.
double mean_rate(const std::vector<TracePoint>& points) {
  if (points.size() == 1) return points.front().bandwidth_mbit;
  double megabits = 0;
  double length = 0;
  for (size_t at = 0; at < points.size(); ++at) {
    const size_t from = std::min(at, points.size() - 2);
    const double lasts = points[from + 1].seconds - points[from].seconds;
    megabits += points[at].bandwidth_mbit * lasts;
    length += lasts;
  }
  return megabits / length;
}

Result<std::vector<TracePoint>> points_of(const Path& file, std::string_view text) {
  std::vector<TracePoint> points;
  int64_t line_number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line_number;
    if (line.empty() || line.front() == '#' || line == "\r") continue;
    const auto wrong = [&](std::string_view what) {
      return usage_error(fmt::format("{}:{}: {}", shown(file.string()), line_number, what));
    };
    const auto point = point_in(line);
    if (!point)
      return wrong(
          "a line of a trace must be seconds,megabits per second[,milliseconds], none negative");
    if (points.empty() && point->seconds != 0) return wrong("a trace must begin at 0 seconds");
    if (!points.empty() && point->seconds < points.back().seconds + kStepMin)
      return wrong("the times of a trace must ascend by a millisecond or more");
    points.push_back(*point);
  }
  if (points.empty() || mean_rate(points) < kRateMin)
    return usage_error(
        fmt::format("{}: the trace is too slow: its mean is below {} megabits per second",
                    shown(file.string()), kRateMin));
  return points;
}

}  // namespace

Status read_traces(const Path& folder, Scenario& scenario) {
  for (SiteLink& link : scenario.links) {
    if (link.trace.empty()) continue;
    const Path file = folder / link.trace;
    const Result<std::string> text = read_text(file);
    if (!text.ok()) return mistake(scenario, link.line, text.error().message);
    LEEWAY_ASSIGN(link.points, points_of(file, *text));
    for (TracePoint& point : link.points) {
      if (point.latency_ms < 0) point.latency_ms = link.latency_ms;
    }
  }
  return {};
}

namespace {

// A stand-in must not change when workers work or what they send to whom.
Status check_stand_in(const Scenario& scenario) {
  for (const std::string& set : scenario.options.stand_in) {
    const auto of = [&](std::string_view table) { return set.starts_with(table); };
    if (!of("model.") && !of("data.") && !of("optimizer.") && !of("run."))
      return usage_error(
          fmt::format("{}: simulate.stand_in has {}, allowed: KEY=VALUE of model, data, optimizer "
                      "and run; the mesh stays the recipe's",
                      shown(scenario.source_name), toml_quoted(set)));
  }
  return {};
}

// Whatever else sets the number of replicas would have no effect on some of them.
Status check_sweep(const Scenario& scenario) {
  std::vector<int64_t> sizes = scenario.options.replicas;
  if (sizes.empty()) return {};
  std::ranges::sort(sizes);
  if (const auto twice = std::ranges::adjacent_find(sizes); twice != sizes.end())
    return usage_error(
        fmt::format("{}: simulate.replicas has {} twice", shown(scenario.source_name), *twice));
  if (scenario.options.math)
    return usage_error(
        fmt::format("{}: simulate.replicas compares sizes without training: leave out "
                    "simulate.math or simulate.replicas",
                    shown(scenario.source_name)));
  const auto sets_it = [](const std::string& set) { return set.starts_with("mesh.replicas="); };
  if (std::ranges::any_of(scenario.sets, sets_it))
    return usage_error("--set mesh.replicas: the scenario has simulate.replicas: set that instead");
  for (const Method& method : scenario.methods) {
    if (std::ranges::any_of(method.set, sets_it))
      return mistake(scenario, method.line,
                     fmt::format("method {} sets mesh.replicas, and so does simulate.replicas: "
                                 "leave out one of them",
                                 toml_quoted(method.name)));
  }
  return {};
}

}  // namespace

Status check_scenario(const Scenario& scenario) {
  LEEWAY_TRY(check_machines(scenario));
  LEEWAY_TRY(check_links(scenario));
  LEEWAY_TRY(check_reachable(scenario));
  LEEWAY_TRY(check_events(scenario));
  LEEWAY_TRY(check_stand_in(scenario));
  LEEWAY_TRY(check_sweep(scenario));
  const std::string& placement = scenario.options.placement;
  if (placement != "rows" && placement != "columns")
    return usage_error(fmt::format("{}: simulate.placement is {}, allowed: \"rows\" or \"columns\"",
                                   shown(scenario.source_name), toml_quoted(placement)));
  for (const Method& method : scenario.methods) {
    const auto same = [&](const Method& other) { return other.name == method.name; };
    if (std::ranges::count_if(scenario.methods, same) > 1)
      return mistake(scenario, method.line,
                     fmt::format("two methods are called {}", toml_quoted(method.name)));
  }
  return {};
}

}  // namespace leeway
