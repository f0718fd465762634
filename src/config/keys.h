// The one table of what a recipe may say. Parser, --set, printing, documentation and error messages
// all read it; a new key is one row in keys.cpp and one field in recipe.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/recipe.h"
#include "config/value.h"

namespace leeway {

template <class T>
struct Access {
  const T& (*get)(const Recipe&);
  T& (*edit)(Recipe&);
};

// Which ends of a range belong to it.
enum class Ends { kBoth, kMinOnly, kMaxOnly };

struct WholeField {
  Access<int64_t> access;
  int64_t min;
  int64_t max;
};
struct NumberField {
  Access<double> access;
  double min;
  double max;
  Ends ends;
};
struct SwitchField {
  Access<bool> access;
};
struct TextField {
  Access<std::string> access;
  bool (*accepts)(std::string_view);
  std::string_view allowed;
};
struct ListField {
  Access<std::vector<std::string>> access;
};
struct NumbersField {
  Access<std::vector<double>> access;
  double above;  // every number is, and at most `max`
  double max;
};
struct WordField {
  std::string_view (*get)(const Recipe&);
  bool (*set)(Recipe&, std::string_view);  // false: not one of the words
  std::span<const std::string_view> words;
};

using Field = std::variant<WholeField, NumberField, SwitchField, TextField, ListField, NumbersField,
                           WordField>;

struct Key {
  std::string_view path;  // table.name
  Field field;
  std::string_view help;            // one sentence
  std::string_view automatic = {};  // not empty: the default follows from other keys, like this
  bool required = false;

  std::string_view table() const { return path.substr(0, path.find('.')); }
  std::string_view name() const { return path.substr(path.find('.') + 1); }
};

struct Table {
  std::string_view name;
  std::string_view help;
};

std::span<const Table> tables();
std::span<const Key> keys();  // in the order of recipe.h, tables together
const Key* find_key(std::string_view path);

// "auto" on such a key is the same as leaving it out.
inline bool asks_for_automatic(const Key& key, const Value& value) {
  return !key.automatic.empty() && value == Value(std::string("auto"));
}

// "auto" where an automatic number is below its range: what no other key decides is left to the
// program, which knows more than a recipe does.
Value value_of(const Key& key, const Recipe& recipe);

// False when the key does not take this value; the recipe is then unchanged. "auto" puts the field
// back to what resolve() starts from.
bool assign(const Key& key, const Value& value, Recipe& recipe);

// What the key takes, to follow "allowed: ".
std::string allowed_text(const Key& key);

}  // namespace leeway
