// Rows of the key table: reading and writing their field of a recipe, and describing what they
// allow.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "config/keys.h"

namespace leeway {
namespace {

bool in_range(const NumberField& field, double value) {
  // Written so that NaN is outside every range.
  const bool above = field.ends == Ends::kMaxOnly ? value > field.min : value >= field.min;
  const bool below = field.ends == Ends::kMinOnly ? value < field.max : value <= field.max;
  return above && below;
}

bool assign_whole(const WholeField& field, const Value& value, Recipe& recipe) {
  const auto* whole = std::get_if<int64_t>(&value);
  if (whole == nullptr || *whole < field.min || *whole > field.max) return false;
  field.access.edit(recipe) = *whole;
  return true;
}

bool assign_number(const NumberField& field, const Value& value, Recipe& recipe) {
  double number = std::numeric_limits<double>::quiet_NaN();
  if (const auto* given = std::get_if<double>(&value)) number = *given;
  if (const auto* whole = std::get_if<int64_t>(&value)) number = static_cast<double>(*whole);
  if (!in_range(field, number)) return false;
  field.access.edit(recipe) = number;
  return true;
}

bool assign_switch(const SwitchField& field, const Value& value, Recipe& recipe) {
  const auto* flag = std::get_if<bool>(&value);
  if (flag == nullptr) return false;
  field.access.edit(recipe) = *flag;
  return true;
}

bool assign_text(const TextField& field, const Value& value, Recipe& recipe) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr || !field.accepts(*text)) return false;
  field.access.edit(recipe) = *text;
  return true;
}

bool assign_list(const ListField& field, const Value& value, Recipe& recipe) {
  std::vector<std::string> list;
  if (const auto* text = std::get_if<std::string>(&value)) {
    list = {*text};
  } else if (const auto* given = std::get_if<std::vector<std::string>>(&value)) {
    list = *given;
  } else {
    return false;
  }
  if (std::ranges::any_of(list, &std::string::empty)) return false;
  field.access.edit(recipe) = std::move(list);
  return true;
}

bool assign_numbers(const NumbersField& field, const Value& value, Recipe& recipe) {
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  const auto* given = std::get_if<std::vector<double>>(&value);
  const bool empty = texts != nullptr && texts->empty();  // [] is read as a list of strings
  if (given == nullptr && !empty) return false;
  std::vector<double> list = empty ? std::vector<double>() : *given;
  const auto good = [&](double number) { return number > field.above && number <= field.max; };
  if (!std::ranges::all_of(list, good)) return false;
  field.access.edit(recipe) = std::move(list);
  return true;
}

bool assign_word(const WordField& field, const Value& value, Recipe& recipe) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr && field.set(recipe, *text);
}

std::string range_text(const NumberField& field) {
  return fmt::format("a number {} {}, {} {}", field.ends == Ends::kMaxOnly ? "above" : "from",
                     field.min, field.ends == Ends::kMinOnly ? "below" : "at most", field.max);
}

std::string words_text(const WordField& field) {
  std::string text;
  for (const std::string_view word : field.words) {
    if (!text.empty()) text += word == field.words.back() ? " or " : ", ";
    text += toml_quoted(word);
  }
  return text;
}

std::string whole_text(const WholeField& field) {
  if (field.max == std::numeric_limits<int64_t>::max())
    return fmt::format("a whole number from {}", field.min);
  return fmt::format("a whole number from {} to {}", field.min, field.max);
}

const Recipe& unresolved() {
  static const Recipe recipe;
  return recipe;
}

void set_automatic(const Key& key, Recipe& recipe) {
  std::visit(
      Overloaded{
          [&](const WordField& field) { field.set(recipe, field.get(unresolved())); },
          [&](const auto& field) { field.access.edit(recipe) = field.access.get(unresolved()); },
      },
      key.field);
}

// Only fields with an automatic value can be below their range.
template <class T>
Value number_or_auto(const T& number, const T& min) {
  return number < min ? Value(std::string("auto")) : Value(number);
}

}  // namespace

Value value_of(const Key& key, const Recipe& recipe) {
  return std::visit(
      Overloaded{
          [&](const WholeField& field) {
            return number_or_auto(field.access.get(recipe), field.min);
          },
          [&](const NumberField& field) {
            return number_or_auto(field.access.get(recipe), field.min);
          },
          [&](const WordField& field) { return Value(std::string(field.get(recipe))); },
          [&](const auto& field) { return Value(field.access.get(recipe)); },
      },
      key.field);
}

bool assign(const Key& key, const Value& value, Recipe& recipe) {
  if (asks_for_automatic(key, value)) {
    set_automatic(key, recipe);
    return true;
  }
  return std::visit(
      Overloaded{
          [&](const WholeField& field) { return assign_whole(field, value, recipe); },
          [&](const NumberField& field) { return assign_number(field, value, recipe); },
          [&](const SwitchField& field) { return assign_switch(field, value, recipe); },
          [&](const TextField& field) { return assign_text(field, value, recipe); },
          [&](const ListField& field) { return assign_list(field, value, recipe); },
          [&](const NumbersField& field) { return assign_numbers(field, value, recipe); },
          [&](const WordField& field) { return assign_word(field, value, recipe); },
      },
      key.field);
}

std::string allowed_text(const Key& key) {
  const std::string text = std::visit(
      Overloaded{
          [](const WholeField& field) { return whole_text(field); },
          [](const NumberField& field) { return range_text(field); },
          [](const SwitchField&) { return std::string("true or false"); },
          [](const TextField& field) { return std::string(field.allowed); },
          [](const ListField&) { return std::string("a string or a list of strings, none empty"); },
          [](const NumbersField& field) {
            return fmt::format("a list of numbers, each above {}, at most {}", field.above,
                               field.max);
          },
          [](const WordField& field) { return words_text(field); },
      },
      key.field);
  return key.automatic.empty() ? text : text + ", or \"auto\"";
}

}  // namespace leeway
