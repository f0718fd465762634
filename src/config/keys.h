// The table of all keys of a recipe. Parser, --set, printing, documentation and error messages all
// use it; a new key is one row in keys.cpp and one field in recipe.h.
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

// Which ends of a range are allowed values.
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
  double above;  // every number is above this, and at most `max`
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
  std::string_view path;  // table.name; the table may itself have a dot: network.emulate
  Field field;
  std::string_view help;            // one sentence
  std::string_view automatic = {};  // not empty: how the default depends on other keys
  bool required = false;

  std::string_view table() const { return path.substr(0, path.rfind('.')); }
  std::string_view name() const { return path.substr(path.rfind('.') + 1); }
};

struct Table {
  std::string_view name;
  std::string_view help;
};

std::span<const Table> tables();
std::span<const Key> keys();  // in the order of recipe.h, tables together
const Key* find_key(std::string_view path);

// "auto" for a key with an automatic default is the same as leaving it out.
inline bool asks_for_automatic(const Key& key, const Value& value) {
  return !key.automatic.empty() && value == Value(std::string("auto"));
}

// Returns "auto" if an automatic number is below its range: no other key decides it, so it is left
// to the program.
Value value_of(const Key& key, const Recipe& recipe);

// False if the key does not take this value; the recipe is then unchanged. "auto" resets the field
// to what resolve() starts from.
bool assign(const Key& key, const Value& value, Recipe& recipe);

// The values that the key takes, to follow "allowed: ".
std::string allowed_text(const Key& key);

}  // namespace leeway
