#include "config/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "config/nearest.h"
#include "config/other_names.h"

namespace leeway {
namespace {

std::string_view table_part(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view name_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string_view> names_in(std::string_view table) {
  std::vector<std::string_view> names;
  for (const Key& key : keys()) {
    if (key.table() == table) names.push_back(key.name());
  }
  return names;
}

std::vector<std::string_view> table_names() {
  std::vector<std::string_view> names;
  for (const Table& table : tables()) names.push_back(table.name);
  return names;
}

// The right name in the wrong table, or without one: "optimizer.schedule or pipeline.schedule".
std::string same_name_elsewhere(std::string_view name) {
  std::string paths;
  if (name == "name")
    return paths;  // a run's name is its folder's; only the optimizer has this key
  for (const Key& key : keys()) {
    if (key.name() == name) paths += fmt::format("{}{}", paths.empty() ? "" : " or ", key.path);
  }
  return paths;
}

// A typo in the table's name, and perhaps one in the key's. Each must be close by itself: a path as
// a whole forgives so many letters that "optimizer.lr" is close to "optimizer.clip".
std::optional<std::string> near_path(std::string_view unknown_path) {
  const auto table = nearest(table_part(unknown_path), table_names());
  if (!table) return std::nullopt;
  const auto name = nearest(name_part(unknown_path), names_in(*table));
  return name ? std::optional(fmt::format("{}.{}", *table, *name)) : std::nullopt;
}

}  // namespace

std::string key_advice(std::string_view unknown_path, Spelling spelling) {
  const std::string_view table = table_part(unknown_path);
  const std::string_view name = name_part(unknown_path);
  if (const std::string paths = same_name_elsewhere(name); !paths.empty())
    return fmt::format(", did you mean {}?", paths);
  if (const auto advice = other_name_advice(name)) return *advice;
  const std::vector<std::string_view> names = names_in(table);
  if (const auto near = nearest(name, names)) {
    const bool short_form = spelling == Spelling::kName;
    return fmt::format(", did you mean {}{}?", short_form ? "" : fmt::format("{}.", table), *near);
  }
  if (const auto path = near_path(unknown_path)) return fmt::format(", did you mean {}?", *path);
  if (names.empty()) return table_advice(table);
  return fmt::format("; the keys of {} are {}", table, fmt::join(names, ", "));
}

std::string table_advice(std::string_view unknown_name) {
  const std::vector<std::string_view> names = table_names();
  return did_you_mean(unknown_name, names,
                      fmt::format("; the tables are {}", fmt::join(names, ", ")));
}

std::string refusal(const Key& key, const Value& value) {
  std::string text = fmt::format("{} is {}, allowed: {}", key.path,
                                 shown(toml_text(value), kShortBytes), allowed_text(key));
  const auto* word = std::get_if<std::string>(&value);
  const auto* field = std::get_if<WordField>(&key.field);
  if (word == nullptr || field == nullptr) return text;
  const auto near = nearest(*word, {field->words.begin(), field->words.end()});
  return near ? text + fmt::format("; did you mean {}?", toml_quoted(*near)) : text;
}

}  // namespace leeway
