#include "base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/check.h"

namespace leeway {
namespace {

constexpr int kNotStarted = 127;   // as in a shell
constexpr int kNotReported = 126;  // and the parent was not told why

bool put(int descriptor, int place) {
  if (descriptor < 0 || descriptor == place) return descriptor == place;
  return ::dup2(descriptor, place) == place && ::close(descriptor) == 0;
}

// Runs in the new process before exec, so it may only call async-signal-safe functions. On failure
// it writes errno to `report`.
[[noreturn]] void become(const char* program, char* const* words, const char* log, int report) {
  ::setpgid(0, 0);
  std::signal(SIGINT, SIG_DFL);  // the parent may have its own handlers
  std::signal(SIGTERM, SIG_DFL);
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
  if (put(::open("/dev/null", O_RDONLY), STDIN_FILENO) &&  // NOLINT: open is variadic
      put(::open(log, kWrite, 0644), STDOUT_FILENO) &&     // NOLINT
      ::dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO) {
    ::execv(program, words);
  }
  const int why = errno;
  const bool reported = ::write(report, &why, sizeof why) == sizeof why;
  ::_exit(reported ? kNotStarted : kNotReported);
}

}  // namespace

Result<Child> Child::start(const Path& program, const std::vector<std::string>& words,
                           const Path& log) {
  LEEWAY_CHECK(!words.empty(), "a child without a name");
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int report[2];  // closed by exec
  if (::pipe2(report, O_CLOEXEC) != 0) return file_error("start", program, errno);
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) {
    // In this order: the parent may have died before prctl().
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNotStarted);
    become(program.c_str(), arguments.data(), log.c_str(), report[1]);
  }
  int why = process < 0 ? errno : 0;
  ::close(report[1]);
  if (process > 0) {
    while (::read(report[0], &why, sizeof why) < 0 && errno == EINTR) continue;
  }
  ::close(report[0]);
  const auto descriptor =
      process < 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  Child child(process, descriptor);  // without a descriptor, wait() only times out
  if (why != 0) return file_error("start", program, why);
  return child;
}

Child::Child(Child&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      end_(other.end_) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(end_, other.end_);
  return *this;
}

Child::~Child() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Child::ask_to_end() {
  if (process_ > 0) ::kill(process_, SIGTERM);
}

std::optional<Child::End> Child::ended() {
  if (process_ < 0) return end_;
  int status = 0;
  if (::waitpid(process_, &status, WNOHANG) != process_) return std::nullopt;
  process_ = -1;
  end_ = WIFSIGNALED(status) ? End{.status = 128 + WTERMSIG(status), .signal = WTERMSIG(status)}
                             : End{.status = WEXITSTATUS(status), .signal = 0};
  return end_;
}

void Child::wait(const std::vector<const Child*>& children, Nanos at_most) {
  std::vector<pollfd> watched;
  for (const Child* child : children)
    watched.push_back({.fd = child->descriptor_, .events = POLLIN, .revents = 0});
  // poll() only fails when a signal interrupts it; the caller checks for those.
  static_cast<void>(
      ::poll(watched.data(), watched.size(), static_cast<int>(at_most.count / 1'000'000)));
}

Path this_program() { return "/proc/self/exe"; }

}  // namespace leeway
