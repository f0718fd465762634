#include "config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "config/advice.h"
#include "config/checks.h"
#include "config/former_keys.h"
#include "config/idle_keys.h"
#include "config/keys.h"
#include "config/other_names.h"
#include "config/resolve.h"
#include "config/sets.h"

namespace leeway {
namespace {

struct Override {
  std::string path;
  std::string value;
};

Error mistake(std::string_view where, std::string_view what) {
  return usage_error(fmt::format("{}: {}", where, what));
}

bool is_table_name(std::string_view name) {
  for (const Table& table : tables()) {
    if (table.name == name) return true;
  }
  return false;
}

std::string table_needs_a_key(std::string_view table) {
  for (const Key& key : keys()) {
    if (key.table() == table)
      return fmt::format("{} is a table: set one of its keys, for example {}", table, key.path);
  }
  return "";
}

// Sets one key, or says why it cannot. "auto" is the same as not giving the key.
Status set_key(const Key& key, const Value& value, const Origin& origin, LoadedRecipe& loaded) {
  if (!assign(key, value, loaded.recipe)) return usage_error(refusal(key, value));
  const std::string path(key.path);
  if (asks_for_automatic(key, value)) {
    loaded.origins.erase(path);
  } else {
    loaded.origins[path] = origin;
  }
  return {};
}

Status apply_entry(const TomlEntry& entry, std::string_view source_name, LoadedRecipe& loaded) {
  const Origin origin{Origin::Kind::kFile, std::string(source_name), entry.line};
  const std::string where = origin_text(origin);
  const FormerKey* const former = find_former_key(entry.path);
  if (former != nullptr && former->now.empty()) {
    if (said_nothing(*former, entry.value)) return {};
    return mistake(where,
                   fmt::format("{} is not a key any more; write {}", entry.path, former->advice));
  }
  if (const Key* key = find_key(former == nullptr ? entry.path : former->now)) {
    const Status status = set_key(*key, entry.value, origin, loaded);
    return status.ok() ? status : mistake(where, status.error().message);
  }
  if (is_table_name(entry.path)) {
    if (entry.is_table) return {};
    return mistake(where, table_needs_a_key(entry.path));
  }
  const std::string kind = entry.is_table ? "table" : "key";
  const std::string advice =
      entry.is_table ? table_advice(entry.path) : key_advice(entry.path, Spelling::kPath);
  return mistake(where,
                 fmt::format("unknown {} {}{}", kind, shown(entry.path, kShortBytes), advice));
}

// In a table of another program, a key that has another name here says more than the table:
// [training] with lr.
const TomlEntry& telling(const TomlEntry& entry, const std::vector<TomlEntry>& entries) {
  if (!entry.is_table || is_table_name(entry.path)) return entry;
  for (const TomlEntry& inner : entries) {
    const bool inside = inner.path.starts_with(entry.path + ".") && !inner.is_table;
    if (inside && !inner.parts.empty() && other_name_advice(inner.parts.back())) return inner;
  }
  return entry;
}

Result<Override> split(const std::string& set) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0)
    return usage_error(
        fmt::format("--set {}: write it as --set table.key=value, for example --set model.width=64",
                    shown(set, kShortBytes)));
  return Override{.path = set.substr(0, equals), .value = set.substr(equals + 1)};
}

// Bare words are strings, so that --set run.device=cuda:0 needs no quotes. Text keys also take
// numbers and dates as strings, because files may have such names.
Result<Value> override_value(const Key& key, const std::string& text) {
  if (!is_utf8(text)) return usage_error("the value is not valid UTF-8");
  const bool structured = text.find_first_of("[{\"'") == 0;
  const bool wants_text = std::holds_alternative<TextField>(key.field) ||
                          std::holds_alternative<ListField>(key.field) ||
                          std::holds_alternative<WordField>(key.field);
  Result<Value> value = read_toml_value(text);
  if (value.ok() && (structured || !wants_text)) return value;
  if (!value.ok() && structured)
    return usage_error(fmt::format(
        "not a TOML value ({}); did the shell remove its quotes? Put single quotes around the "
        "argument: --set '{}=...'",
        value.error().message, key.path));
  return Value(text);
}

// Two keys set the run's length, and the last one wins: --set run.updates=50 overrides run.tokens
// in the file.
void settle_length(std::string_view path, LoadedRecipe& loaded) {
  if (path != "run.updates" && path != "run.tokens") return;
  if (path == "run.tokens" && loaded.recipe.run.tokens == 0) return;
  const std::string_view other = path == "run.updates" ? "run.tokens" : "run.updates";
  if (loaded.origin_of(other).kind == Origin::Kind::kFile) forget(other, loaded);
}

std::string set_words(const std::string& set) { return "--set " + shown(set, kShortBytes); }

Status apply_set(const std::string& set, LoadedRecipe& loaded) {
  LEEWAY_ASSIGN(const TomlEntry entry, read_set(set));
  const Origin origin{.kind = Origin::Kind::kSet};
  const Status status = set_key(*find_key(entry.path), entry.value, origin, loaded);
  if (!status.ok()) return mistake(set_words(set), status.error().message);
  settle_length(entry.path, loaded);
  return {};
}

}  // namespace

Result<TomlEntry> read_set(const std::string& set) {
  LEEWAY_ASSIGN(const Override override_, split(set));
  const Key* key = find_key(override_.path);
  if (key == nullptr) {
    if (is_table_name(override_.path))
      return mistake(set_words(set), table_needs_a_key(override_.path));
    return mistake(set_words(set), "unknown key" + key_advice(override_.path, Spelling::kName));
  }
  Result<Value> value = override_value(*key, override_.value);
  if (!value.ok()) return mistake(set_words(set), value.error().message);
  return TomlEntry{.path = override_.path, .line = 0, .is_table = false, .value = *value};
}

Origin LoadedRecipe::origin_of(std::string_view path) const {
  const auto found = origins.find(path);
  return found == origins.end() ? Origin{} : found->second;
}

std::string origin_text(const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::kDefault:
      return "default";
    case Origin::Kind::kFile:
      if (origin.line == 0) return shown(origin.file);
      return fmt::format("{}:{}", shown(origin.file), origin.line);
    case Origin::Kind::kSet:
      return "--set";
  }
  return "";
}

Result<LoadedRecipe> load_recipe(const Path& path, const std::vector<std::string>& sets) {
  const Result<std::string> text = read_text(path);
  // A usage error, because the user named the file.
  if (!text.ok()) return usage_error(text.error().message);
  return parse_recipe(*text, path.string(), sets);
}

Result<LoadedRecipe> parse_recipe(std::string_view toml, std::string_view source_name,
                                  const std::vector<std::string>& sets) {
  LEEWAY_ASSIGN(std::vector<TomlEntry> entries, read_toml(toml, source_name));
  return join_recipe({{std::string(source_name), std::move(entries)}}, sets, IdleKeys::kRefused);
}

Result<LoadedRecipe> join_recipe(const std::vector<RecipeLayer>& layers,
                                 const std::vector<std::string>& sets, IdleKeys idle) {
  LEEWAY_ASSIGN(LoadedRecipe loaded, stack_layers(layers));
  LoadedRecipe files = loaded;
  resolve(files);
  for (const std::string& set : sets) LEEWAY_TRY(apply_set(set, loaded));
  drop_idle(idle == IdleKeys::kDropped ? nullptr : &files.recipe, loaded);
  LEEWAY_TRY(complete_recipe(loaded, layers.back().source_name));
  return loaded;
}

Result<LoadedRecipe> stack_layers(const std::vector<RecipeLayer>& layers) {
  LoadedRecipe loaded;
  for (const RecipeLayer& layer : layers) {
    const auto names = [&](std::string_view path) {
      return std::ranges::count(layer.entries, path, &TomlEntry::path) > 0;
    };
    for (const TomlEntry& entry : layer.entries)
      LEEWAY_TRY(apply_entry(telling(entry, layer.entries), layer.source_name, loaded));
    // If two layers set the run's length by different keys, the later layer wins. Both keys in one
    // layer are an error, found later.
    if (names("run.updates") && !names("run.tokens")) forget("run.tokens", loaded);
    if (names("run.tokens") && !names("run.updates") && loaded.recipe.run.tokens > 0)
      forget("run.updates", loaded);
  }
  return loaded;
}

Status complete_recipe(LoadedRecipe& loaded, std::string_view source_name) {
  resolve(loaded);
  LEEWAY_TRY(check_required(loaded.recipe, source_name));
  return check_together(loaded);
}

}  // namespace leeway
