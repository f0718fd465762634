#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace leeway {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "leeway: internal error at %s:%d: %s (%.*s)\n", file, line, condition,
               static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace leeway
