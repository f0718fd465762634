// One line of a run's event log: a kind and named values, in the order they were added.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace leeway {

class Event {
 public:
  // monostate: null, which is what a double that is not finite becomes (JSON has no NaN).
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;

  explicit Event(std::string_view kind) : kind_(kind) {}

  // Adding under a name that is there already replaces the value.
  Event& add(std::string_view name, std::string_view value);
  Event& add(std::string_view name, const char* value);  // else a literal would become a bool
  Event& add(std::string_view name, double value);
  template <std::integral Integer>
  Event& add(std::string_view name, Integer value) {
    if constexpr (std::is_same_v<Integer, bool>) {
      return put(name, value);
    } else {
      LEEWAY_CHECK(std::in_range<int64_t>(value), "64 unsigned bits go into the log as text");
      return put(name, static_cast<int64_t>(value));
    }
  }

  const std::string& kind() const { return kind_; }
  // nullptr: there is no such name.
  const Value* find(std::string_view name) const;
  // nullopt: there is no such name, or its value is of another type.
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;  // an integer too
  std::optional<std::string> text(std::string_view name) const;

  // {"event":KIND,NAME:VALUE,...} without a line end. Text that is not UTF-8 loses those bytes.
  std::string line() const;
  static Result<Event> parse(std::string_view line);

  friend bool operator==(const Event&, const Event&) = default;

 private:
  Event& put(std::string_view name, Value value);

  std::string kind_;
  std::vector<std::pair<std::string, Value>> values_;
};

}  // namespace leeway
