// Runs something that may crash or hang in a child process with limits, and says how it ended.
#pragma once

#include <sys/resource.h>
#include <sys/time.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace leeway::fuzz {

struct Limits {
  uint64_t memory_bytes = 0;  // beyond what the child has at its start; 0: no limit
  unsigned cpu_s = 0;         // per input; 0: no limit
  unsigned seconds = 600;     // per input: something that waits for ever uses no CPU time
};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)  // clang's way to tell
inline constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif
// Sanitizers reserve terabytes and take ten times as long.
inline constexpr Limits kFileLimits =
    kSanitized ? Limits{.memory_bytes = 0, .cpu_s = 60, .seconds = 300}
               : Limits{.memory_bytes = 512 << 20, .cpu_s = 5, .seconds = 60};

class Progress;

struct Outcome {
  std::string why;         // empty: it ran to its end
  uint64_t index = 0;      // of the input that it failed at
  std::string input = {};  // that input
  double slowest_s = 0;    // CPU time of the slowest input
};

Outcome run_in_child(const Limits& limits, const std::function<void(Progress&)>& work);

// What a child is at, in memory that its parent sees after it has died.
class Progress {
 public:
  static constexpr size_t kInputMax = size_t{4} << 20;

  void start(uint64_t index, std::string_view input);
  void finish();

 private:
  friend Outcome run_in_child(const Limits&, const std::function<void(Progress&)>&);
  Limits limits_;
  uint64_t index_ = 0;
  double began_s_ = 0;
  double slowest_s_ = 0;
  size_t size_ = 0;
  char input_[kInputMax];
};

}  // namespace leeway::fuzz
