#include "child_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <new>

#include "base/check.h"

namespace leeway::fuzz {
namespace {

constexpr int kThrew = 3;  // exit status

double cpu_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void limit_memory(uint64_t bytes) {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit = {most, most};
  LEEWAY_CHECK(::setrlimit(RLIMIT_AS, &limit) == 0, "cannot limit memory");
}

std::string describe_end(int status) {
  if (WIFEXITED(status)) {
    if (WEXITSTATUS(status) == 0) return "";
    if (WEXITSTATUS(status) == kThrew) return "an exception";
    return fmt::format("exit status {}", WEXITSTATUS(status));
  }
  const int signal = WTERMSIG(status);
  if (signal == SIGPROF || signal == SIGALRM) return "too slow";
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

}  // namespace

void Progress::start(uint64_t index, std::string_view input) {
  LEEWAY_CHECK(input.size() <= kInputMax, "an input fits");
  index_ = index;
  size_ = input.size();
  std::memcpy(input_, input.data(), input.size());
  began_s_ = cpu_seconds();
  // The default action of both signals ends the process.
  const itimerval timer = {.it_interval = {}, .it_value = {.tv_sec = limits_.cpu_s, .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
  ::alarm(limits_.seconds);
}

void Progress::finish() { slowest_s_ = std::max(slowest_s_, cpu_seconds() - began_s_); }

Outcome run_in_child(const Limits& limits, const std::function<void(Progress&)>& work) {
  void* shared =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  LEEWAY_CHECK(shared != MAP_FAILED, "no memory to share with a child");
  Progress& progress = *new (shared) Progress;
  progress.limits_ = limits;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  LEEWAY_CHECK(child >= 0, "cannot fork");
  if (child == 0) {
    if (limits.memory_bytes > 0) limit_memory(limits.memory_bytes);
    int status = 0;
    try {
      work(progress);
    } catch (const std::exception& exception) {
      std::fprintf(stderr, "%s\n", exception.what());
      status = kThrew;
    }
    std::fflush(nullptr);
    ::_exit(status);  // without LibTorch's destructors
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const Outcome outcome = {.why = describe_end(status),
                           .index = progress.index_,
                           .input = std::string(progress.input_, progress.size_),
                           .slowest_s = progress.slowest_s_};
  ::munmap(shared, sizeof(Progress));
  return outcome;
}

}  // namespace leeway::fuzz
