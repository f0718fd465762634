#include "base/held_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

namespace leeway {
namespace {

constexpr int kTries = 100;

// A lock of the open file, not of the process: closing another descriptor of the file keeps it,
// and asking who holds it does not take it.
struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool has_no_locks(int error_number) {
  return error_number == ENOLCK || error_number == ENOSYS || error_number == EOPNOTSUPP ||
         error_number == EINVAL;
}

std::string this_process() {
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "process " + std::to_string(::getpid()) + " on " + host.data();
}

// What the holder wrote of itself, one line of printable text, and when.
std::string written_in(int descriptor) {
  std::array<char, 400> text = {};
  const ssize_t got = ::pread(descriptor, text.data(), text.size(), 0);
  std::string line;
  for (ssize_t i = 0; i < got && text[static_cast<size_t>(i)] >= ' '; ++i)
    line.push_back(text[static_cast<size_t>(i)]);
  if (line.empty()) line = "another process";
  struct stat file = {};
  std::tm utc = {};
  std::array<char, 64> since = {};
  if (::fstat(descriptor, &file) != 0 || ::gmtime_r(&file.st_mtime, &utc) == nullptr) return line;
  std::strftime(since.data(), since.size(), " since %Y-%m-%d %H:%M:%S UTC", &utc);
  return line + since.data();
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Whether the folder's lock file is the one that is open: somebody may have replaced it.
bool is_lock_of(int lock, int folder) {
  struct stat opened = {}, named = {};
  return ::fstat(lock, &opened) == 0 && ::fstatat(folder, kLockFile, &named, 0) == 0 &&
         same_file(opened, named);
}

}  // namespace

HeldFolder::HeldFolder(HeldFolder&& other) noexcept
    : path_(std::move(other.path_)),
      folder_(std::exchange(other.folder_, -1)),
      lock_(std::exchange(other.lock_, -1)) {}

HeldFolder::~HeldFolder() {
  // Removed while it is held: whoever has opened it by then sees that it has no name any more.
  if (lock_ >= 0 && is_lock_of(lock_, folder_)) ::unlinkat(folder_, kLockFile, 0);
  if (lock_ >= 0) ::close(lock_);
  if (folder_ >= 0) ::close(folder_);
}

Result<HeldFolder> HeldFolder::hold(const Path& path) {
  for (int i = 0; i < kTries; ++i) {
    LEEWAY_TRY(make_folder(path));
    const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT) continue;  // renamed in the meantime
    if (folder < 0) return file_error("open the folder", path, errno);
    HeldFolder held(path, folder);
    const int lock = ::openat(folder, kLockFile, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0) return file_error("write", path / kLockFile, errno);
    struct flock wanted = whole_file();
    if (::fcntl(lock, F_OFD_SETLK, &wanted) != 0) {
      const int error_number = errno;
      const std::string holder = written_in(lock);
      ::close(lock);
      if (has_no_locks(error_number)) return held;
      if (error_number != EAGAIN && error_number != EACCES)
        return file_error("lock", path, error_number);
      return Error{path.string() + " is in use by " + holder + "; wait until it ends, or stop it"};
    }
    // The holder before may have removed its lock or moved the folder since we opened them.
    struct stat opened = {}, named = {};
    const bool current = is_lock_of(lock, folder) && ::fstat(folder, &opened) == 0 &&
                         ::stat(path.c_str(), &named) == 0 && same_file(opened, named);
    if (!current) {
      ::close(lock);
      continue;
    }
    held.lock_ = lock;
    const std::string line = this_process() + "\n";  // for people; the lock does not depend on it
    if (::ftruncate(lock, 0) == 0) static_cast<void>(!::pwrite(lock, line.data(), line.size(), 0));
    return held;
  }
  return Error{"other processes keep replacing " + path.string() + "; choose another folder"};
}

Path HeldFolder::at(std::string_view name) const {
  return Path("/proc/self/fd") / std::to_string(folder_) / name;
}

Status HeldFolder::check_present() const {
  struct stat folder = {};
  if (::fstat(folder_, &folder) != 0) return file_error("read", path_, errno);
  if (folder.st_nlink == 0) return Error{path_.string() + " has been removed"};
  return {};
}

uint64_t HeldFolder::free_bytes() const {
  struct statvfs disk = {};
  if (::fstatvfs(folder_, &disk) != 0) return UINT64_MAX;  // unknown: the save will tell
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

std::optional<std::string> holder_of(const Path& folder) {
  const int descriptor = ::open((folder / kLockFile).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  struct flock asked = whole_file();
  const bool held = ::fcntl(descriptor, F_OFD_GETLK, &asked) == 0 && asked.l_type != F_UNLCK;
  const std::string holder = written_in(descriptor);
  ::close(descriptor);
  return held ? std::optional(holder) : std::nullopt;
}

}  // namespace leeway
