// What LibTorch or the system has thrown, in words.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>

#include "base/result.h"
#include "config/recipe.h"

namespace leeway {

Error failure_of(const std::exception_ptr& thrown);

// The same for a run: if memory has run out, with what the run was planned to need and what would
// need less. `vocabulary`: unknown before its data is open.
Error failure_of(const std::exception_ptr& thrown, const Recipe& recipe,
                 std::optional<int64_t> vocabulary);

}  // namespace leeway
