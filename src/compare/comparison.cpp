#include "compare/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config/keys.h"
#include "config/nearest.h"
#include "config/sets.h"

namespace leeway {
namespace {

const std::vector<std::string_view> kNames = {"recipe",   "seeds",       "rates", "fair",
                                              "baseline", "target_loss", "base",  "variants"};
constexpr double kRateMost = 1000;
constexpr double kLossMost = 1000;
constexpr double kExactMost = 9007199254740992;  // 2^53: below it a double is exact for integers

Error mistake(std::string_view source_name, int64_t line, std::string_view what) {
  return usage_error(fmt::format("{}:{}: {}", shown(source_name), line, what));
}

std::string unknown_name(std::string_view name) {
  const std::string advice =
      did_you_mean(name, kNames, fmt::format("; known keys are {}", fmt::join(kNames, ", ")));
  const std::string hint = name.find('.') != std::string_view::npos || find_key(name) != nullptr
                               ? " (keys of the recipe belong under [base])"
                               : "";
  return fmt::format("unknown key {}{}{}", shown(name, kShortBytes), advice, hint);
}

// A list of distinct numbers that `accepts` allows, or an error.
template <class Accepts>
Result<std::vector<double>> numbers_of(const TomlEntry& entry, Accepts accepts,
                                       std::string_view allowed) {
  const auto refuse = [&] {
    return usage_error(fmt::format("{} is {}, allowed: {}", entry.path,
                                   shown(toml_text(entry.value), kShortBytes), allowed));
  };
  const auto* list = std::get_if<std::vector<double>>(&entry.value);
  if (list == nullptr || list->empty() || !std::ranges::all_of(*list, accepts)) return refuse();
  std::vector<double> sorted = *list;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return refuse();
  return *list;
}

Status set_seeds(const TomlEntry& entry, Comparison& comparison) {
  const auto whole = [](double seed) {
    return seed >= 0 && seed < kExactMost && seed == std::floor(seed);
  };
  comparison.seeds_line = entry.line;
  LEEWAY_ASSIGN(comparison.seeds,
                numbers_of(entry, whole, "a list of distinct whole numbers from 0"));
  return {};
}

Status set_rates(const TomlEntry& entry, Comparison& comparison) {
  const auto factor = [](double rate) { return rate > 0 && rate <= kRateMost; };
  comparison.rates_line = entry.line;
  LEEWAY_ASSIGN(comparison.rates,
                numbers_of(entry, factor,
                           fmt::format("a list of distinct learning-rate factors, each "
                                       "above 0, at most {}",
                                       kRateMost)));
  return {};
}

Status set_text(const TomlEntry& entry, std::string& target) {
  const auto* text = std::get_if<std::string>(&entry.value);
  if (text == nullptr || text->empty()) {
    return usage_error(fmt::format("{} is {}, allowed: a non-empty string", entry.path,
                                   shown(toml_text(entry.value), kShortBytes)));
  }
  target = *text;
  return {};
}

Status set_fair(const TomlEntry& entry, Comparison& comparison) {
  const auto* flag = std::get_if<bool>(&entry.value);
  if (flag == nullptr) {
    return usage_error(fmt::format("fair is {}, allowed: true or false",
                                   shown(toml_text(entry.value), kShortBytes)));
  }
  comparison.fair = *flag;
  return {};
}

Status set_target(const TomlEntry& entry, Comparison& comparison) {
  const auto* whole = std::get_if<int64_t>(&entry.value);
  const auto* number = std::get_if<double>(&entry.value);
  const double target = number != nullptr ? *number : static_cast<double>(whole ? *whole : 0);
  if (!(target > 0 && target <= kLossMost)) {
    return usage_error(fmt::format("target_loss is {}, allowed: a loss above 0, at most {}",
                                   shown(toml_text(entry.value), kShortBytes), kLossMost));
  }
  comparison.target_loss = target;
  return {};
}

// The entry as a recipe has it, without the first `count` parts of its path. "model.width" may be
// one quoted key or a dotted TOML key.
TomlEntry without_prefix(const TomlEntry& entry, size_t count) {
  TomlEntry rest = entry;
  rest.parts.erase(rest.parts.begin(), rest.parts.begin() + static_cast<ptrdiff_t>(count));
  rest.path = fmt::format("{}", fmt::join(rest.parts, "."));
  return rest;
}

Status add_to_layer(const TomlEntry& entry, RecipeLayer& layer) {
  if (entry.path == "run.seed")
    return usage_error(
        "run.seed is set by the comparison: write seeds = [1, 2, 3] at the top of the file");
  layer.entries.push_back(entry);
  return {};
}

Status add_to_variant(const TomlEntry& entry, std::string_view source_name,
                      Comparison& comparison) {
  const std::string& name = entry.parts[1];
  if (name.empty()) return usage_error("a variant has no name");
  if (entry.parts.size() == 2 && !entry.is_table) {
    return usage_error(fmt::format("{} is not a table: write [{}] and its overrides below",
                                   entry.path, entry.path));
  }
  auto found = std::ranges::find(comparison.variants, name, &Variant::name);
  if (found == comparison.variants.end()) {
    comparison.variants.push_back({name, {std::string(source_name), {}}});
    found = std::prev(comparison.variants.end());
  }
  if (entry.parts.size() == 2) return {};
  return add_to_layer(without_prefix(entry, 2), found->layer);
}

Status add_entry(const TomlEntry& entry, std::string_view source_name, Comparison& comparison) {
  const std::string& name = entry.parts.front();
  const bool nested = entry.parts.size() > 1;
  if ((name == "base" || name == "variants") && !nested) {
    return entry.is_table ? Status()
                          : usage_error(fmt::format("{} is a table: write [{}]", name, name));
  }
  if (name == "base") return add_to_layer(without_prefix(entry, 1), comparison.base);
  if (name == "variants") return add_to_variant(entry, source_name, comparison);
  if (nested) return usage_error(unknown_name(entry.path));
  if (name == "recipe") return set_text(entry, comparison.recipe);
  if (name == "baseline") return set_text(entry, comparison.baseline);
  if (name == "seeds") return set_seeds(entry, comparison);
  if (name == "rates") return set_rates(entry, comparison);
  if (name == "fair") return set_fair(entry, comparison);
  if (name == "target_loss") return set_target(entry, comparison);
  return usage_error(unknown_name(entry.path));
}

Status check_baseline(std::string_view source_name, Comparison& comparison) {
  std::vector<std::string_view> names;
  for (const Variant& variant : comparison.variants) names.push_back(variant.name);
  if (comparison.baseline.empty()) comparison.baseline = names.front();
  if (std::ranges::count(names, comparison.baseline) > 0) return {};
  const auto near = nearest(comparison.baseline, names);
  return usage_error(
      fmt::format("{}: baseline is {}, which is not a variant{}", shown(source_name),
                  shown(toml_quoted(comparison.baseline), kShortBytes),
                  near ? fmt::format(", did you mean {}?", toml_quoted(*near)) : ""));
}

// Keys at the top of the file have no dot; a recipe's keys have one.
Status apply_set(const std::string& set, Comparison& comparison) {
  const size_t equals = set.find('=');
  const std::string name = set.substr(0, equals);
  const auto complain = [&](const std::string& what) {
    return usage_error(fmt::format("--set {}: {}", shown(set, kShortBytes), what));
  };
  if (equals == std::string::npos || name.find('.') != std::string::npos) {
    LEEWAY_ASSIGN(const TomlEntry entry, read_set(set));
    const Status status = add_to_layer(entry, comparison.sets);
    return status.ok() ? status : complain(status.error().message);
  }
  if (name == "recipe" || name == "baseline" || name == "base" || name == "variants")
    return complain(name + " can only be changed in the file");
  const std::string text = set.substr(equals + 1);
  const Result<Value> value = read_toml_value(text);
  const Status status =
      add_entry({.path = name, .parts = {name}, .value = value.ok() ? *value : Value(text)},
                "--set", comparison);
  return status.ok() ? status : complain(status.error().message);
}

// A variant's own value wins; if all variants set the key, --set would have no effect.
Status check_sets_matter(const Comparison& comparison, std::string_view source_name) {
  for (const TomlEntry& set : comparison.sets.entries) {
    const auto says = [&](const Variant& variant) {
      return std::ranges::count(variant.layer.entries, set.path, &TomlEntry::path) > 0;
    };
    if (!std::ranges::all_of(comparison.variants, says)) continue;
    return usage_error(
        fmt::format("--set {} has no effect: every variant of {} sets this key; change it there",
                    set.path, shown(source_name)));
  }
  return {};
}

// A value of the comparison, as a recipe entry.
TomlEntry entry_of(std::string_view path, int64_t line, Value value) {
  return {.path = std::string(path), .line = line, .is_table = false, .value = std::move(value)};
}

}  // namespace

Result<Comparison> parse_comparison(std::string_view toml, std::string_view source_name) {
  LEEWAY_ASSIGN(std::vector<TomlEntry> entries, read_toml(toml, source_name));
  // In file order; on one line, a table before its keys.
  std::ranges::stable_sort(entries, [](const TomlEntry& a, const TomlEntry& b) {
    return a.line != b.line ? a.line < b.line : a.parts.size() < b.parts.size();
  });
  Comparison comparison;
  comparison.base.source_name = source_name;
  for (const TomlEntry& entry : entries) {
    const Status status = add_entry(entry, source_name, comparison);
    if (!status.ok()) return mistake(source_name, entry.line, status.error().message);
  }
  if (comparison.variants.empty()) {
    return usage_error(
        fmt::format("{}: there is nothing to compare: add a table [variants.NAME] for each variant",
                    shown(source_name)));
  }
  LEEWAY_TRY(check_baseline(source_name, comparison));
  return comparison;
}

Result<ComparisonText> load_comparison(const Path& file, const std::vector<std::string>& sets) {
  const Result<std::string> toml = read_text(file);
  if (!toml.ok()) return usage_error(toml.error().message);
  LEEWAY_ASSIGN(Comparison comparison, parse_comparison(*toml, file.string()));
  for (const std::string& set : sets) LEEWAY_TRY(apply_set(set, comparison));
  LEEWAY_TRY(check_sets_matter(comparison, file.string()));
  ComparisonText text{std::move(comparison), file.string(), {}};
  if (text.comparison.recipe.empty()) return text;
  const Path recipe = (file.parent_path() / text.comparison.recipe).lexically_normal();
  const Result<std::string> base = read_text(recipe);
  if (!base.ok()) {
    return usage_error(fmt::format("{}: recipe: {}", file.string(), base.error().message));
  }
  LEEWAY_ASSIGN(std::vector<TomlEntry> entries, read_toml(*base, recipe.string()));
  text.recipe.push_back({recipe.string(), std::move(entries)});
  return text;
}

Result<LoadedRecipe> stack_variant(const ComparisonText& text, const Variant& variant,
                                   const RunChoice& choice) {
  std::vector<RecipeLayer> layers = text.recipe;
  layers.push_back(text.comparison.base);
  layers.push_back(text.comparison.sets);
  layers.push_back(variant.layer);
  LEEWAY_ASSIGN(const LoadedRecipe before, stack_layers(layers));
  const Comparison& comparison = text.comparison;
  RecipeLayer own{text.source_name, {}};
  if (!comparison.seeds.empty()) {
    own.entries.push_back(
        entry_of("run.seed", comparison.seeds_line, static_cast<int64_t>(choice.seed)));
  }
  if (choice.rate != 1) {
    const OptimizerOptions& optimizer = before.recipe.optimizer;
    const auto scaled = [&](std::string_view path, double rate) {
      own.entries.push_back(entry_of(path, comparison.rates_line, rate * choice.rate));
    };
    scaled("optimizer.rate", optimizer.rate);
    scaled("optimizer.matrix_rate", optimizer.matrix_rate);
  }
  layers.push_back(std::move(own));
  return stack_layers(layers);
}

}  // namespace leeway
