#include "cli/validators.h"

#include <fmt/format.h>

#include <cmath>

namespace leeway::cli {

CLI::Validator at_least(double minimum) {
  const auto complaint = [minimum](const std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
    return good && value >= minimum ? "" : fmt::format("got {}; give {} or more", text, minimum);
  };
  // No description: each option's help already says what the number is.
  return CLI::Validator(complaint, "");
}

}  // namespace leeway::cli
