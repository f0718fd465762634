#include "base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace leeway {
namespace {

// Default answers to signals whatever ours are, and a group of its own.
class SpawnSettings {
 public:
  explicit SpawnSettings(const Path& log) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, log.c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    ::posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& words, const Path& log) {
  LEEWAY_CHECK(!words.empty(), "a child without a program");
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const SpawnSettings settings(log);
  pid_t process = -1;
  const int failed = ::posix_spawn(&process, words.front().c_str(), settings.actions(),
                                   settings.attributes(), arguments.data(), environ);
  if (failed != 0) return file_error("start", words.front(), failed);
  const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  return Child(process, descriptor);  // without a descriptor: waits go by time alone
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
  // An error is a signal: the caller looks for itself.
  static_cast<void>(
      ::poll(watched.data(), watched.size(), static_cast<int>(at_most.count / 1'000'000)));
}

Path this_program() { return "/proc/self/exe"; }

}  // namespace leeway
