// One value of a recipe: from a TOML file, from --set, or about to be printed. Knows nothing about
// keys; the rest of config/ knows nothing about toml++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace leeway {

// Something that TOML allows but no key takes: a table, a date, a list of lists.
struct Foreign {
  std::string description;
  bool operator==(const Foreign&) const = default;
};

// An empty list counts as a list of strings.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<std::string>,
                           std::vector<double>, Foreign>;

// For std::visit: one lambda per alternative.
template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <class... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;  // clang 16 does not deduce it

// As TOML that parses back to the same value. Foreign values are described instead.
std::string toml_text(const Value& value);

// A TOML basic string with its quotes.
std::string toml_quoted(std::string_view text);

// For messages and comments, which must stay one readable line whatever the user typed: control
// characters and broken UTF-8 become '?', and text beyond `bytes_max` becomes "...".
inline constexpr size_t kShortBytes = 80;
std::string shown(std::string_view text, size_t bytes_max = SIZE_MAX);

// TOML files are always UTF-8; --set can bring any bytes.
bool is_utf8(std::string_view text);

}  // namespace leeway
