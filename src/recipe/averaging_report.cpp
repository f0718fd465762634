#include "recipe/averaging_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "averaging/stability.h"
#include "averaging/subset.h"
#include "base/human.h"
#include "config/named.h"
#include "config/words.h"
#include "recipe/averaging_costs.h"
#include "recipe/lane_options.h"
#include "recipe/memory_check.h"

namespace leeway {
namespace {

std::string every(int64_t updates) {
  return updates == 1 ? "every update" : fmt::format("every {} updates", updates);
}

// "3 to 5", or "3" if both look the same.
std::string between(const std::string& least, const std::string& most) {
  return least == most ? least : fmt::format("{} to {}", least, most);
}

int64_t cycle_of(const AveragingOptions& averaging) {
  return Cut({.parameters = 1, .fraction = averaging.fraction}).parts();
}

std::string method_text(const Recipe& recipe) {
  const AveragingOptions& averaging = recipe.averaging;
  const AveragingMethod method = averaging.method;
  if (method == AveragingMethod::kNone)
    return "none: the replicas train apart, and the result is their mean";
  const int64_t cycle = cycle_of(averaging);
  std::string what = "all weights";
  if (method == AveragingMethod::kLowbit) what = "all steps";
  if (method == AveragingMethod::kAllreduce) what = "all gradients";
  if (cycle > 1) what = fmt::format("another 1/{} of the weights", cycle);
  std::string text = fmt::format("{}, {} {}", word_of(method), what, every(round_interval(recipe)));
  if (cycle > 1) text += fmt::format(", all of them in {} rounds", cycle);
  return text;
}

// What a merge does besides taking the mean.
std::string rule_text(const AveragingOptions& averaging) {
  std::string text;
  const bool weights =
      averaging.method == AveragingMethod::kSparse || averaging.method == AveragingMethod::kDiloco;
  if (weights) text += fmt::format(", correction {}", word_of(averaging.correction));
  if (weights && (averaging.outer_rate != 1 || averaging.outer_momentum != 0)) {
    text += fmt::format(", outer rate {:g} and momentum {:g}", averaging.outer_rate,
                        averaging.outer_momentum);
  }
  if (averaging.method == AveragingMethod::kLowbit) {
    text += fmt::format(", smoothing {:g}, gain {:g}", averaging.smoothing, averaging.gain);
  }
  return text;
}

std::string merge_text(const AveragingOptions& averaging) {
  if (averaging.method == AveragingMethod::kAllreduce)
    return "waits for the mean before it updates";
  if (averaging.merge == MergePolicy::kOnArrival) {
    const std::string late =
        averaging.deadline_ms < 0 ? "two rounds" : fmt::format("{:g} ms", averaging.deadline_ms);
    return fmt::format("on arrival, leaving out replicas more than {} late{}", late,
                       rule_text(averaging));
  }
  if (averaging.lag == 0) return "waits for the mean right away" + rule_text(averaging);
  return fmt::format("{:g} {} after sending, waits for all replicas{}", averaging.lag,
                     averaging.lag == 1 ? "update" : "updates", rule_text(averaging));
}

std::string numbers_text(const Recipe& recipe, const AveragingTraffic& traffic) {
  const auto by = [](auto member) {
    return [=](const StageTraffic& a, const StageTraffic& b) { return a.*member < b.*member; };
  };
  const auto range = [&](auto member, auto shown) {
    const auto [least, most] =
        std::minmax_element(traffic.stages.begin(), traffic.stages.end(), by(member));
    return between(shown((*least).*member), shown((*most).*member));
  };
  const auto count = [](double numbers) {
    return human_count(static_cast<uint64_t>(std::llround(numbers)));
  };
  return fmt::format("{} values in {}; a worker sends {}", range(&StageTraffic::numbers, count),
                     word_of(recipe.averaging.wire),
                     range(&StageTraffic::round_bytes, shown_bytes));
}

std::string percent(double share) {
  return fmt::format("{:.{}f} %", 100 * share, share < 0.1 ? 1 : 0);
}

std::string stability_text(const Recipe& recipe) {
  const AveragingOptions& averaging = recipe.averaging;
  if (averaging.merge != MergePolicy::kFixedLag || averaging.lag == 0) return "";
  StabilityOptions options = stability_options(recipe, averaging.lag);
  options.interval = round_interval(recipe);
  const auto limit = stability_limit(options);
  if (!limit) return "";
  return fmt::format(
      "  in flight  {:.3g} {} of each weight (lag * fraction / interval); {} is stable up to "
      "{:.3g}\n",
      rounds_in_flight(options), rounds_in_flight(options) == 1 ? "round" : "rounds",
      word_of(averaging.correction), *limit);
}

// Which evaluations are of what.
std::string evaluation_text(const Recipe& recipe, const AveragingTraffic& traffic) {
  const RunOptions& run = recipe.run;
  const bool often = run.evaluate_every > 0 && run.evaluate_every < run.updates;
  if (!often) return "the mean of the replicas, at the end";
  const int64_t means = std::lcm(run.evaluate_every, traffic.evaluate_mean_every);
  if (means == run.evaluate_every) return "the mean of the replicas " + every(means);
  return fmt::format("a replica's own weights {}, the mean of all {}", every(run.evaluate_every),
                     means >= run.updates ? "at the end" : every(means));
}

}  // namespace

std::string averaging_report(const Recipe& recipe, int64_t vocabulary) {
  if (recipe.mesh.replicas == 1) return "";
  std::string text = fmt::format("\n  averaging  {}\n", method_text(recipe));
  const AveragingTraffic traffic = averaging_traffic(recipe, vocabulary);
  if (!traffic.stages.empty()) {
    text += fmt::format("  merge      {}\n  a round    {}\n", merge_text(recipe.averaging),
                        numbers_text(recipe, traffic));
    text += stability_text(recipe);
    text += fmt::format(
        "  an update  {} over all replicas, {} of the {} of an all-reduce of fp32 gradients\n",
        shown_bytes(traffic.update_bytes), percent(traffic.update_bytes / traffic.allreduce_bytes),
        shown_bytes(traffic.allreduce_bytes));
  }
  if (recipe.averaging.method == AveragingMethod::kLowbit) {
    return text + "  evaluation the common model, which every replica has: nothing is sent\n";
  }
  return text + fmt::format("  evaluation {}: {} of copies per update on average\n",
                            evaluation_text(recipe, traffic),
                            shown_bytes(traffic.evaluation_bytes));
}

std::vector<std::string> averaging_notes(const LoadedRecipe& loaded,
                                         const std::optional<int64_t>& vocabulary) {
  const Recipe& recipe = loaded.recipe;
  const AveragingOptions& averaging = recipe.averaging;
  std::vector<std::string> notes;
  if (averaging.method == AveragingMethod::kNone) return notes;
  if (recipe.mesh.replicas == 1) {
    if (loaded.is_given("averaging.method")) {
      notes.push_back(fmt::format(
          "note: {} does nothing with one replica: raise mesh.replicas, or leave it out",
          named(loaded, "averaging.method")));
    }
    return notes;
  }
  if (averaging.merge == MergePolicy::kFixedLag) {
    const auto warning = stability_warning(stability_options(recipe, averaging.lag));
    if (warning && averaging.guard) {
      notes.push_back(
          fmt::format("note: averaging.guard keeps rounds {} updates apart, not {}: at "
                      "a lag of {:g} updates merging would otherwise be unstable",
                      round_interval(recipe), averaging.interval, averaging.lag));
    } else if (warning) {
      notes.push_back("warning: " + *warning);
    }
  }
  if (!vocabulary) return notes;
  const AveragingTraffic traffic = averaging_traffic(recipe, *vocabulary);
  const int64_t means = recipe.run.evaluate_mean_every;
  if (means > 0 && traffic.evaluation_bytes > traffic.update_bytes) {
    notes.push_back(fmt::format(
        "note: copies for evaluation are {} per update on average, more than the {} of "
        "averaging: raise run.evaluate_mean_every ({}), or leave it out, to send fewer",
        shown_bytes(traffic.evaluation_bytes), shown_bytes(traffic.update_bytes), means));
  }
  return notes;
}

}  // namespace leeway
