#include "base/check.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace leeway {
namespace {

thread_local const CheckContext* innermost = nullptr;

}  // namespace

CheckScope::CheckScope(const CheckContext& context) : context_(context), outer_(innermost) {
  innermost = &context_;
}

CheckScope::~CheckScope() { innermost = outer_; }

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "leeway: internal error at %s:%d: %s (%.*s)\n", file, line, condition,
               static_cast<int>(message.size()), message.data());
  if (innermost != nullptr) {
    std::fprintf(stderr,
                 "leeway: in replica %" PRId64 " stage %" PRId64 " after %" PRId64
                 " updates, seed %" PRIu64 "\n",
                 innermost->worker.replica.value, innermost->worker.stage.value, innermost->update,
                 innermost->seed);
  }
  std::abort();
}

}  // namespace leeway
