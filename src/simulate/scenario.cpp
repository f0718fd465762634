#include "simulate/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/averaging_rules.h"
#include "config/keys.h"
#include "config/nearest.h"
#include "config/words.h"
#include "simulate/scenario_checks.h"
#include "simulate/scenario_keys.h"

namespace leeway {
namespace {

std::string at_line(std::string_view source_name, int64_t line) {
  return fmt::format("{}:{}", shown(source_name), line);
}

// "machine" in "machine[0].name".
std::string_view first_word(std::string_view path) {
  return path.substr(0, path.find_first_of(".["));
}

// "name" in "machine[0].name" and in "churn.name"; empty: the table itself.
std::string_view key_part(std::string_view path) {
  const size_t dot = path.find('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
}

Status unknown_word(std::string_view word) {
  std::vector<std::string_view> words = scenario_words();
  for (const Table& table : tables()) words.push_back(table.name);
  return usage_error(fmt::format(
      "unknown table {}{}", shown(word, kShortBytes),
      did_you_mean(word, words, fmt::format("; known tables are {}", fmt::join(words, ", ")))));
}

template <class T>
Status check_given(std::string_view word, const std::vector<std::string>& given) {
  for (const ScenarioKey<T>& key : scenario_keys<T>()) {
    if (!key.required || std::ranges::find(given, key.name) != given.end()) continue;
    return usage_error(fmt::format("{} has no {}: add one", word, key.name));
  }
  return {};
}

class Reader {
 public:
  Reader(Scenario& scenario, const std::vector<TomlEntry>& entries)
      : scenario_(scenario), entries_(entries) {}

  Status read() {
    for (const TomlEntry& entry : entries_) {
      const Status status = read_entry(entry);
      if (status.ok()) continue;
      return usage_error(fmt::format("{}: {}", at_line(scenario_.source_name, entry.line),
                                     status.error().message));
    }
    return {};
  }
  const std::string& recipe_file() const { return recipe_file_; }
  int64_t recipe_line() const { return recipe_line_; }

 private:
  Status read_entry(const TomlEntry& entry) {
    const std::string_view word = first_word(entry.path);
    if (!is_scenario_word(word)) {
      const auto is_it = [&](const Table& table) { return table.name == word; };
      if (!std::ranges::any_of(tables(), is_it)) return unknown_word(word);
      scenario_.recipe.back().entries.push_back(entry);
      return {};
    }
    if (word == "recipe") return read_recipe(entry);
    if (word == "simulate") return read_table(entry, word, scenario_.options);
    if (word == "churn") return read_table(entry, word, scenario_.churn);
    if (word == "machine") return read_list(entry, word, scenario_.machines);
    if (word == "site") return read_list(entry, word, scenario_.sites);
    if (word == "link") return read_list(entry, word, scenario_.links);
    if (word == "stall") return read_list(entry, word, scenario_.stalls);
    if (word == "join") return read_list(entry, word, scenario_.joins);
    if (word == "departure") return read_list(entry, word, scenario_.departures);
    return read_list(entry, word, scenario_.methods);
  }

  Status read_recipe(const TomlEntry& entry) {
    const auto* const name = std::get_if<std::string>(&entry.value);
    if (entry.path != "recipe" || name == nullptr || name->empty())
      return usage_error("recipe must be a file name: write recipe = \"other.toml\"");
    recipe_file_ = *name;
    recipe_line_ = entry.line;
    return {};
  }

  template <class T>
  Status read_table(const TomlEntry& entry, std::string_view word, T& table) {
    if (entry.path == word && entry.is_table)
      return check_given<T>(word, keys_after(entry, std::string(word)));
    if (key_part(entry.path).empty())
      return usage_error(fmt::format("{} is a table: write [{}]", word, word));
    return assign_scenario_key(word, key_part(entry.path), entry.value, table);
  }

  template <class T>
  Status read_list(const TomlEntry& entry, std::string_view word, std::vector<T>& list) {
    if (entry.path == word) {
      if (!entry.is_table && std::holds_alternative<Foreign>(entry.value)) return {};
      return usage_error(fmt::format("{0} is a list: write [[{0}]]", word));
    }
    if (!entry.path.starts_with(fmt::format("{}[", word)))
      return usage_error(fmt::format("{0} is a list: write [[{0}]]", word));
    if (key_part(entry.path).empty()) {
      list.emplace_back().line = entry.line;
      return check_given<T>(word, keys_after(entry, entry.path));
    }
    return assign_scenario_key(word, key_part(entry.path), entry.value, list.back());
  }

  // The table's keys, wherever they are in the file.
  std::vector<std::string> keys_after(const TomlEntry& table, const std::string& path) const {
    std::vector<std::string> names;
    for (const TomlEntry& entry : entries_) {
      if (&entry != &table && entry.path.starts_with(path + "."))
        names.push_back(entry.path.substr(path.size() + 1));
    }
    return names;
  }

  Scenario& scenario_;
  const std::vector<TomlEntry>& entries_;
  std::string recipe_file_;
  int64_t recipe_line_ = 0;
};

// The --set arguments for the scenario's own keys.
Status apply_own_sets(const std::vector<std::string>& sets, Scenario& scenario) {
  constexpr std::string_view kOwn = "simulate.";
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    if (!set.starts_with(kOwn) || equals == std::string::npos) {
      scenario.sets.push_back(set);
      continue;
    }
    const std::string text = set.substr(equals + 1);
    const Result<Value> value = read_toml_value(text);
    const Status status =
        assign_scenario_key("simulate", set.substr(kOwn.size(), equals - kOwn.size()),
                            value.ok() ? *value : Value(text), scenario.options);
    if (!status.ok())
      return usage_error(
          fmt::format("--set {}: {}", shown(set, kShortBytes), status.error().message));
  }
  return {};
}

// Overrides; later ones win.
std::vector<std::string> joined(const std::vector<std::vector<std::string>>& lists) {
  std::vector<std::string> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

int64_t Scenario::worker_count() const {
  int64_t count = 0;
  for (const MachineGroup& group : machines) count += group.count * group.workers;
  return count;
}

namespace {

// Checkpoints are part of a simulation only where the scenario asks for them: the automatic number
// knows nothing of its machines.
Result<LoadedRecipe> without_automatic_checkpoints(Result<LoadedRecipe> loaded) {
  if (loaded.ok() && !loaded->is_given("run.checkpoint_every"))
    loaded->recipe.run.checkpoint_every = 0;
  return loaded;
}

}  // namespace

Result<LoadedRecipe> Scenario::recipe_with(const std::vector<std::string>& overrides) const {
  return without_automatic_checkpoints(
      join_recipe(recipe, joined({overrides, sets}), IdleKeys::kDropped));
}

Result<LoadedRecipe> Scenario::trained_with(const std::vector<std::string>& overrides) const {
  const auto key_of = [](std::string_view set) { return set.substr(0, set.find('=')); };
  for (const std::string& set : sets) {
    const auto same = [&](const std::string& own) { return key_of(own) == key_of(set); };
    if (std::ranges::any_of(options.stand_in, same))
      return usage_error(
          fmt::format("--set {}: simulate.stand_in has its own {} for training: change "
                      "simulate.stand_in, or leave out simulate.math",
                      shown(set, kShortBytes), key_of(set)));
  }
  return without_automatic_checkpoints(
      join_recipe(recipe, joined({overrides, sets, options.stand_in}), IdleKeys::kDropped));
}

Result<Scenario> load_scenario(const Path& path, const std::vector<std::string>& sets) {
  const Result<std::string> text = read_text(path);
  if (!text.ok()) return usage_error(text.error().message);
  return parse_scenario(*text, path, sets);
}

Result<Scenario> parse_scenario(std::string_view toml, const Path& path,
                                const std::vector<std::string>& sets) {
  const std::string source_name = path.string();
  LEEWAY_ASSIGN(const std::vector<TomlEntry> entries, read_toml(toml, source_name));
  Scenario scenario;
  scenario.source_name = source_name;
  scenario.recipe.push_back({source_name, {}});
  Reader reader(scenario, entries);
  LEEWAY_TRY(reader.read());
  if (!reader.recipe_file().empty()) {
    // Relative to the scenario, so that both can be moved together.
    const Path file = path.parent_path() / reader.recipe_file();
    const Result<std::string> text = read_text(file);
    if (!text.ok())
      return usage_error(
          fmt::format("{}: {}", at_line(source_name, reader.recipe_line()), text.error().message));
    LEEWAY_ASSIGN(std::vector<TomlEntry> base, read_toml(*text, file.string()));
    scenario.recipe.insert(scenario.recipe.begin(), {file.string(), std::move(base)});
  }
  LEEWAY_TRY(apply_own_sets(sets, scenario));
  LEEWAY_TRY(read_traces(path.parent_path(), scenario));
  LEEWAY_TRY(check_scenario(scenario));
  return scenario;
}

std::vector<Method> default_methods(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  const bool staged = recipe.mesh.stages > 1;
  const bool replicated = recipe.mesh.replicas > 1;
  const auto method = [&](std::string_view schedule, AveragingMethod averaging) {
    Method made;
    if (staged || !replicated) {
      made.name = schedule;
      made.set.push_back(fmt::format("pipeline.schedule={}", schedule));
    }
    if (!replicated) return made;
    made.name += fmt::format("{}{}", staged ? " + " : "", word_of(averaging));
    // The recipe's settings for its own method do not apply to others.
    for (const Key& key : keys()) {
      if (key.table() == "averaging" && !key.automatic.empty() &&
          recipe.averaging.method != averaging)
        made.set.push_back(fmt::format("{}=auto", key.path));
    }
    made.set.push_back(fmt::format("averaging.method={}", word_of(averaging)));
    // The method's usual interval is longer than a short run.
    const int64_t updates = recipe.run.updates;
    if (averaging == AveragingMethod::kDiloco && recipe.averaging.method != averaging &&
        updates < averaging_defaults(averaging).interval)
      made.set.push_back(fmt::format("averaging.interval={}", std::max<int64_t>(1, updates / 4)));
    return made;
  };
  using enum AveragingMethod;
  if (!replicated && !staged) return {method("async", kNone)};
  if (!replicated) return {method("1f1b", kNone), method("gpipe", kNone), method("async", kNone)};
  std::vector<Method> methods = {method("1f1b", kAllreduce)};
  if (staged) methods.push_back(method("gpipe", kAllreduce));
  if (staged) methods.push_back(method("async", kAllreduce));
  for (const AveragingMethod late : {kDiloco, kLowbit, kSparse})
    methods.push_back(method("async", late));
  return methods;
}

}  // namespace leeway
