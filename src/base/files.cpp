#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace leeway {
namespace {

const char* advice(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "check the path";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check its permissions, or choose another place";
    case ENOSPC:
    case EDQUOT:
      return "free some space, or choose another place";
    case EFBIG:
      return "raise the limit on file sizes, or choose another place";
    case EISDIR:
      return "name a file, not a folder";
    case ENOTDIR:
    case EEXIST:
      return "there is a file where a folder is needed";
    default:
      return "try again, or choose another place";
  }
}

Status write_all(int descriptor, const Path& path, std::span<const std::byte> bytes,
                 int64_t offset) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = offset < 0
                              ? ::write(descriptor, bytes.data() + done, bytes.size() - done)
                              : ::pwrite(descriptor, bytes.data() + done, bytes.size() - done,
                                         offset + static_cast<int64_t>(done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return file_error("write", path, errno);
    done += static_cast<size_t>(wrote);
  }
  return {};
}

Path temporary_for(const Path& path) {
  static std::atomic<int> counter{0};  // two files of one process never share a temporary file
  Path temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  return temporary;
}

}  // namespace

Path named_path(const Path& path) {
  const std::string text = path.string();
  constexpr std::string_view kHandles = "/proc/self/fd/";
  if (!text.starts_with(kHandles)) return path;
  const size_t end = std::min(text.find('/', kHandles.size()), text.size());
  std::error_code code;
  const Path folder = std::filesystem::read_symlink(text.substr(0, end), code);
  return code ? path : Path(folder.string() + text.substr(end));
}

Error file_error(std::string_view verb, const Path& path, int error_number) {
  std::string message = "cannot ";
  message.append(verb).append(" ").append(named_path(path).string());
  message.append(": ").append(std::strerror(error_number));
  message.append(" (").append(advice(error_number)).append(")");
  return Error{std::move(message)};
}

Result<std::string> read_text(const Path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return file_error("read", path, errno);
  std::string text;
  std::array<char, 1 << 16> piece;
  while (true) {  // not mapped: the size of a pipe (a shell's <(...)) is not known in advance
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    const int error_number = errno;
    if (got <= 0) ::close(descriptor);
    if (got < 0) return file_error("read", path, error_number);
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
  }
}

Status write_atomically(const Path& path, std::string_view content) {
  LEEWAY_ASSIGN(AtomicFile file, AtomicFile::create(path));
  LEEWAY_TRY(file.write(as_bytes(content)));
  return file.commit();
}

Status make_folder(const Path& path) {
  if (path.empty()) return {};  // the parent of a plain name: the current folder
  std::error_code code;
  std::vector<Path> parents;  // of folders that are not there yet
  for (Path at = path; !at.empty() && !std::filesystem::exists(at, code); at = at.parent_path())
    parents.push_back(at.parent_path());
  std::filesystem::create_directories(path, code);
  if (code) return file_error("create the folder", path, code.value());
  // A folder above that may not be read cannot be synced; the new one is there all the same.
  for (const Path& parent : parents) static_cast<void>(sync_folder(parent));
  return {};
}

Status link_or_copy(const Path& from, const Path& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return sync_folder(to.parent_path());
  if (errno == ENOENT) return file_error("read", from, errno);
  LEEWAY_ASSIGN(const MappedFile file, MappedFile::open(from));
  LEEWAY_ASSIGN(AtomicFile copy, AtomicFile::create(to));
  LEEWAY_TRY(copy.write(file.bytes()));
  return copy.commit();
}

namespace {

// Returns 0 or an error number.
int remove_entry(int folder, const char* name) {  // NOLINT(misc-no-recursion): folders nest
  if (::unlinkat(folder, name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR && errno != EPERM) return errno;
  const int inner = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner < 0) return errno;
  DIR* const entries = ::fdopendir(inner);  // closes `inner` with it
  if (entries == nullptr) {
    const int error_number = errno;
    ::close(inner);
    return error_number;
  }
  int failed = 0;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view entry_name = entry->d_name;
    if (entry_name == "." || entry_name == "..") continue;
    if (const int error_number = remove_entry(inner, entry->d_name)) failed = error_number;
  }
  ::closedir(entries);
  if (failed != 0) return failed;
  return ::unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : errno;
}

}  // namespace

Status remove_tree(const Path& path) {
  const int error_number = remove_entry(AT_FDCWD, path.c_str());
  if (error_number != 0) return file_error("remove", path, error_number);
  return {};
}

Status sync_folder(const Path& path) {
  const int descriptor =
      ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return file_error("open the folder", path, errno);
  const int result = ::fsync(descriptor);
  const int error_number = errno;
  ::close(descriptor);
  // Some file systems cannot sync a folder; that is fine, the rename is already done.
  if (result != 0 && error_number != EINVAL) return file_error("sync", path, error_number);
  return {};
}

Status sync_file(const Path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return file_error("read", path, errno);
  const int result = ::fsync(descriptor);
  const int error_number = errno;
  ::close(descriptor);
  if (result != 0) return file_error("write", path, error_number);
  return {};
}

AtomicFile::AtomicFile(Path target, Path temporary, int descriptor)
    : target_(std::move(target)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

Result<AtomicFile> AtomicFile::create(const Path& path) {
  Path temporary = temporary_for(path);
  const int descriptor = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return file_error("write", path, errno);
  return AtomicFile(path, std::move(temporary), descriptor);
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  LEEWAY_TRY(write_all(descriptor_, target_, bytes, -1));
  size_ += bytes.size();
  return {};
}

Status AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  LEEWAY_CHECK(offset + bytes.size() <= size_, "write_at() only overwrites what write() wrote");
  return write_all(descriptor_, target_, bytes, static_cast<int64_t>(offset));
}

Status AtomicFile::commit() {
  LEEWAY_CHECK(descriptor_ >= 0, "committed twice");
  if (::fsync(descriptor_) != 0) return file_error("write", target_, errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    return file_error("write", target_, errno);
  ::close(std::exchange(descriptor_, -1));
  return sync_folder(target_.parent_path());
}

Result<MappedFile> MappedFile::open(const Path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return file_error("read", path, errno);
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) {
    const int error_number = errno;
    ::close(descriptor);
    return file_error("read", path, error_number);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    if (S_ISDIR(info.st_mode)) return file_error("read", path, EISDIR);
    return Error{"cannot read " + path.string() +
                 ": it is a pipe or a device (copy its content to a file first)"};
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) {
    ::close(descriptor);
    return MappedFile(nullptr, 0);
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int error_number = errno;
  ::close(descriptor);
  if (data == MAP_FAILED) return file_error("read", path, error_number);
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace leeway
