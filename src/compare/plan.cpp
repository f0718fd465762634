#include "compare/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/names.h"
#include "config/keys.h"

namespace leeway {
namespace {

constexpr size_t kNameMost = 48;  // characters of a variant's name used in its folder's name
constexpr size_t kHashDigits = 8;

std::string folder_name(std::string_view variant, const PlannedRun& run) {
  return fmt::format("{}-x{:g}-seed{}-{}", plain_name(variant.substr(0, kNameMost), "variant"),
                     run.rate, run.seed,
                     hash_hex(recipe_hash(run.recipe.recipe)).substr(0, kHashDigits));
}

Result<PlannedRun> plan_run(const ComparisonText& text, size_t variant, const RunChoice& choice) {
  const Variant& chosen = text.comparison.variants[variant];
  LEEWAY_ASSIGN(LoadedRecipe recipe, stack_variant(text, chosen, choice));
  PlannedRun run{.variant = variant, .rate = choice.rate, .name = {}, .recipe = {}, .refused = {}};
  const Status complete = complete_recipe(recipe, text.source_name);
  if (!complete.ok()) run.refused = complete.error().message;
  // Variants are looked at equally often, whatever they send.
  RunOptions& options = recipe.recipe.run;
  if (text.comparison.target_loss > 0 && options.evaluate_mean_every < 0)
    options.evaluate_mean_every = 1;
  run.seed = options.seed;
  run.recipe = std::move(recipe);
  run.name = folder_name(chosen.name, run);
  return run;
}

Status add_runs(const ComparisonText& text, ComparisonPlan& plan) {
  const Comparison& comparison = text.comparison;
  const std::vector<double> seeds =
      comparison.seeds.empty() ? std::vector<double>{0} : comparison.seeds;
  for (const double seed : seeds) {
    for (const double rate : comparison.rates) {
      for (size_t variant = 0; variant < comparison.variants.size(); ++variant) {
        LEEWAY_ASSIGN(PlannedRun run, plan_run(text, variant, {.rate = rate, .seed = seed}));
        plan.runs.push_back(std::move(run));
      }
    }
    plan.seeds.push_back(plan.runs.back().seed);
  }
  return {};
}

Status check_names(const ComparisonPlan& plan) {
  std::set<std::string> names;
  for (const PlannedRun& run : plan.runs) {
    if (!names.insert(run.name).second) {
      return usage_error(fmt::format(
          "{}: variant {} has the same recipe and folder name as another: remove one",
          plan.source_name,
          shown(leeway::toml_quoted(plan.comparison.variants[run.variant].name), kShortBytes)));
    }
  }
  return {};
}

// Compares each variant with the first that can run, at the first seed and rate.
std::vector<std::string> unfair_parts(const ComparisonPlan& plan) {
  std::vector<std::string> found;
  const auto begin = plan.runs.begin();
  const auto end = begin + static_cast<ptrdiff_t>(plan.comparison.variants.size());
  const auto first = std::find_if(begin, end, [](const auto& run) { return run.refused.empty(); });
  for (auto run = first; run != end; ++run) {
    if (!run->refused.empty() || run == first) continue;
    const auto name = [&](const PlannedRun& of) {
      return plan.comparison.variants[of.variant].name;
    };
    const Recipe& recipe = run->recipe.recipe;
    for (std::string& part :
         unfair_between(name(*first), first->recipe.recipe, name(*run), recipe)) {
      found.push_back(std::move(part));
    }
    // Evaluating more often finds a loss sooner.
    const auto compare = [&](std::string_view key, int64_t one, int64_t other) {
      if (plan.comparison.target_loss == 0 || one == other) return;
      found.push_back(fmt::format("{} of {} is {} and of {} {}", key,
                                  shown(leeway::toml_quoted(name(*first)), kShortBytes), one,
                                  shown(leeway::toml_quoted(name(*run)), kShortBytes), other));
    };
    const RunOptions& options = first->recipe.recipe.run;
    compare("run.evaluate_every", options.evaluate_every, recipe.run.evaluate_every);
    compare("run.evaluate_mean_every", options.evaluate_mean_every, recipe.run.evaluate_mean_every);
  }
  return found;
}

Status check_fair(const ComparisonPlan& plan) {
  if (plan.unfair.empty() || !plan.comparison.fair) return {};
  return usage_error(fmt::format(
      "{}: not a fair comparison: {}{}; make them equal, or set fair = false, which the results "
      "will show",
      shown(plan.source_name), plan.unfair.front(),
      plan.unfair.size() > 1 ? fmt::format(" (and {} more)", plan.unfair.size() - 1) : ""));
}

// The time to a loss is only known if runs evaluate on the way.
Status check_target(const ComparisonPlan& plan) {
  if (plan.comparison.target_loss == 0) return {};
  for (const PlannedRun& run : plan.runs) {
    const RunOptions& options = run.recipe.recipe.run;
    const auto is_often = [&](int64_t every) { return every > 0 && every < options.updates; };
    const bool evaluates = is_often(options.evaluate_every);
    const bool looks = evaluates && is_often(options.evaluate_mean_every);
    if (!run.refused.empty() || looks) continue;
    return usage_error(fmt::format(
        "{}: target_loss does not work with {} = {} of {}: evaluate several times in its {} "
        "updates",
        shown(plan.source_name), evaluates ? "run.evaluate_mean_every" : "run.evaluate_every",
        evaluates ? options.evaluate_mean_every : options.evaluate_every,
        shown(leeway::toml_quoted(plan.comparison.variants[run.variant].name), kShortBytes),
        options.updates));
  }
  return {};
}

}  // namespace

uint64_t recipe_hash(const Recipe& recipe) {
  std::string text;
  for (const Key& key : keys())
    text += fmt::format("{} = {}\n", key.path, toml_text(value_of(key, recipe)));
  return hash_text(text);
}

int64_t run_tokens(const Recipe& recipe) {
  return recipe.run.updates * recipe.data.batch * recipe.model.context * recipe.mesh.replicas;
}

std::vector<std::string> unfair_between(const std::string& first_name, const Recipe& first,
                                        const std::string& second_name, const Recipe& second) {
  std::vector<std::string> found;
  const auto compare = [&](std::string_view what, const std::string& a, const std::string& b) {
    if (a == b) return;
    found.push_back(fmt::format(
        "{} of {} {} {} and of {} {}", what, shown(leeway::toml_quoted(first_name), kShortBytes),
        what.ends_with('s') ? "are" : "is", shown(a, kShortBytes),
        shown(leeway::toml_quoted(second_name), kShortBytes), shown(b, kShortBytes)));
  };
  const auto number = [](int64_t value) { return fmt::format("{}", value); };
  const auto key = [&](std::string_view path) {
    compare(path, toml_text(value_of(*find_key(path), first)),
            toml_text(value_of(*find_key(path), second)));
  };
  compare("updates", number(first.run.updates), number(second.run.updates));
  compare("tokens", number(run_tokens(first)), number(run_tokens(second)));
  // Losses are means over windows, so text and windows must be the same.
  key("data.valid");
  if (first.data.valid.empty() || second.data.valid.empty()) {
    key("data.train");
    key("data.valid_share");
  }
  key("data.tokenizer");
  key("model.context");
  key("run.evaluate_windows");
  return found;
}

Result<ComparisonPlan> plan_comparison(const ComparisonText& text) {
  ComparisonPlan plan{text.comparison, text.source_name, {}, {}, {}};
  LEEWAY_TRY(add_runs(text, plan));
  LEEWAY_TRY(check_names(plan));
  if (std::ranges::none_of(plan.runs, &std::string::empty, &PlannedRun::refused))
    return usage_error(plan.runs.front().refused);
  plan.unfair = unfair_parts(plan);
  LEEWAY_TRY(check_fair(plan));
  LEEWAY_TRY(check_target(plan));
  return plan;
}

}  // namespace leeway
