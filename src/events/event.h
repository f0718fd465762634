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
  // monostate: null. Doubles that are not finite become null, because JSON has no NaN.
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;

  explicit Event(std::string_view kind) : kind_(kind) {}

  // Adding a name again replaces its value.
  Event& add(std::string_view name, std::string_view value);
  Event& add(std::string_view name, const char* value);  // or a literal would become a bool
  Event& add(std::string_view name, double value);
  template <std::integral Integer>
  Event& add(std::string_view name, Integer value) {
    if constexpr (std::is_same_v<Integer, bool>) {
      return put(name, value);
    } else {
      LEEWAY_CHECK(std::in_range<int64_t>(value), "log 64-bit unsigned values as text");
      return put(name, static_cast<int64_t>(value));
    }
  }

  Event& remove(std::string_view name);  // if it is there

  const std::string& kind() const { return kind_; }
  // nullptr: no such name.
  const Value* find(std::string_view name) const;
  // nullopt: no such name, or its value has another type.
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;  // also takes integers
  std::optional<std::string> text(std::string_view name) const;

  // {"event":KIND,NAME:VALUE,...} without a line end. Bytes that are not UTF-8 become U+FFFD.
  std::string line() const;
  static Result<Event> parse(std::string_view line);

  friend bool operator==(const Event&, const Event&) = default;

 private:
  Event& put(std::string_view name, Value value);

  std::string kind_;
  std::vector<std::pair<std::string, Value>> values_;
};

}  // namespace leeway
