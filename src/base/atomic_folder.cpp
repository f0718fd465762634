#include "base/atomic_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace leeway {
namespace fs = std::filesystem;
namespace {

constexpr const char* kLockName = ".lock";
const std::string kWorkInfix = ".preparing-";

// -1: another process has the lock, or there is no lock file.
int try_lock(const Path& folder, int flags) {
  const int descriptor = ::open((folder / kLockName).c_str(), flags | O_RDWR | O_CLOEXEC, 0644);
  if (descriptor < 0) return -1;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

Path work_path(const Path& target) {
  static std::atomic<int> counter{0};
  Path work = target;
  work += kWorkInfix + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  return work;
}

// Whether the process in NAME.preparing-PROCESS-N is alive. If the name has no process id, assume
// it is.
bool maker_lives(const std::string& name, size_t infix) {
  const long process = std::strtol(name.c_str() + infix + kWorkInfix.size(), nullptr, 10);
  return process <= 0 || ::kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH;
}

// A lock that we can take belonged to a dead process. A process that died while it removed the
// folder it had replaced may leave no lock file; then its process id decides.
void remove_leftovers(const Path& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    const size_t infix = name.find(kWorkInfix);
    if (infix == std::string::npos) continue;
    std::error_code ignored;  // A leftover that cannot be removed does no harm.
    const int lock = try_lock(entry.path(), 0);
    const bool unlocked = lock < 0 && !fs::exists(entry.path() / kLockName, ignored);
    if (lock >= 0 || (unlocked && !maker_lives(name, infix))) {
      static_cast<void>(remove_tree(entry.path()));
    }
    if (lock >= 0) ::close(lock);
  }
}

// Swaps two folders in one step, if the file system can.
bool exchange(const Path& a, const Path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

AtomicFolder::AtomicFolder(Path target, Path work, int lock)
    : target_(std::move(target)), work_(std::move(work)), lock_(lock) {}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : target_(std::move(other.target_)),
      work_(std::exchange(other.work_, {})),
      lock_(std::exchange(other.lock_, -1)) {}

AtomicFolder::~AtomicFolder() {
  if (!work_.empty()) static_cast<void>(remove_tree(work_));
  if (lock_ >= 0) ::close(lock_);
}

Result<AtomicFolder> AtomicFolder::create(const Path& target) {
  std::error_code code;
  // Resolves symbolic links, "." and a final slash: we work next to the real folder.
  Path real = fs::weakly_canonical(target, code);
  if (code) return file_error("create the folder", target, code.value());
  if (!real.has_filename()) real = real.parent_path();
  LEEWAY_TRY(make_folder(real.parent_path()));
  remove_leftovers(real.parent_path());
  Path work = work_path(real);
  LEEWAY_TRY(make_folder(work));
  const int lock = try_lock(work, O_CREAT);
  if (lock < 0) {
    const int error_number = errno;
    static_cast<void>(remove_tree(work));
    return file_error("lock", work, error_number);
  }
  return AtomicFolder(std::move(real), std::move(work), lock);
}

Status AtomicFolder::commit() {
  LEEWAY_CHECK(!work_.empty(), "committed twice");
  LEEWAY_TRY(sync_folder(work_));
  std::error_code code;
  const bool replaces = fs::exists(target_, code) && !fs::is_empty(target_, code);
  if (replaces && !exchange(work_, target_)) {
    // Not atomic, but if we stop in between, the old folder is set aside and not lost.
    Path aside = work_;
    aside += "-old";
    fs::rename(target_, aside, code);
    if (code) return file_error("replace", target_, code.value());
    fs::rename(work_, target_, code);
    if (code) {
      std::error_code ignored;
      fs::rename(aside, target_, ignored);
      return file_error("replace", target_, code.value());
    }
    work_ = std::move(aside);
  } else if (!replaces) {
    fs::rename(work_, target_, code);
    if (code) return file_error("create the folder", target_, code.value());
    work_.clear();
  }
  fs::remove(target_ / kLockName, code);
  if (!work_.empty()) static_cast<void>(remove_tree(work_));  // By now the old folder.
  work_.clear();
  return sync_folder(target_.parent_path());
}

Status remove_folder(const Path& path) {
  const Path doomed = work_path(path);
  std::error_code code;
  fs::rename(path, doomed, code);
  if (code) return file_error("remove", path, code.value());
  return remove_tree(doomed);
}

}  // namespace leeway
