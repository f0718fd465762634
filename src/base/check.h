// LEEWAY_CHECK: our own bugs stop the program, in every build. Trouble from the world is a Result
// (result.h); a user's mistake is a ConfigError (config/).
#pragma once

#include <string_view>

namespace leeway {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);

}  // namespace leeway

#define LEEWAY_CHECK(condition, message)                                 \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::leeway::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)

// For the end of a switch that has returned in every case.
#define LEEWAY_UNREACHABLE(message) \
  ::leeway::check_failed(__FILE__, __LINE__, "unreachable", (message))
