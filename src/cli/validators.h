// Checks for option values; a message names the value and what is allowed.
#pragma once

#include <CLI/CLI.hpp>

namespace leeway::cli {

// A finite number, `minimum` or more: "--tokens: got 0; give 1 or more".
CLI::Validator at_least(double minimum);

}  // namespace leeway::cli
