// How deep TOML is nested, found without parsing it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace leeway {

// No file of ours is nested more than four deep.
inline constexpr int kTomlDepthMax = 16;

struct TomlPlace {
  int64_t line = 1;
  int64_t column = 1;
};

// Where a key has more parts, or where lists and inline tables are nested deeper, than
// kTomlDepthMax. toml++ limits only the second, and walks and frees its tables by recursion, so a
// key of thousands of parts would overflow the stack.
std::optional<TomlPlace> too_deep(std::string_view toml);

}  // namespace leeway
