// One value as it was written: in a TOML file, after --set, or about to be printed. Knows nothing
// of keys; the rest of config/ knows nothing of toml++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace leeway {

// Something that TOML allows and no key of ours takes: a table, a date, a list of lists.
struct Foreign {
  std::string description;
  bool operator==(const Foreign&) const = default;
};

// An empty list is one of texts, for want of a better guess.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<std::string>,
                           std::vector<double>, Foreign>;

// For std::visit: one lambda per alternative.
template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};

// As TOML: parses back to the same value. Foreign values are described instead.
std::string toml_text(const Value& value);

// A TOML basic string with its quotes.
std::string toml_quoted(std::string_view text);

// For messages and comments, which must stay one readable line of text whatever the user typed:
// control characters and broken UTF-8 become '?', what goes beyond `bytes_max` becomes "...".
inline constexpr size_t kShortBytes = 80;
std::string shown(std::string_view text, size_t bytes_max = SIZE_MAX);

// TOML files hold nothing else; --set can bring any bytes.
bool is_utf8(std::string_view text);

}  // namespace leeway
