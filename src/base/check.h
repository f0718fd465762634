// LEEWAY_CHECK: our own bugs stop the program, in every build. Failures outside the program and
// user mistakes are Results (result.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/ids.h"

namespace leeway {

// Whose work a check belongs to. A failing check prints it, so that the run can be repeated up to
// that point. It applies to this thread while the scope exists.
struct CheckContext {
  WorkerId worker;
  int64_t update = 0;
  uint64_t seed = 0;
};
class CheckScope {
 public:
  explicit CheckScope(const CheckContext& context);
  ~CheckScope();
  CheckScope(const CheckScope&) = delete;
  CheckScope& operator=(const CheckScope&) = delete;

 private:
  CheckContext context_;
  const CheckContext* outer_;
};

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
