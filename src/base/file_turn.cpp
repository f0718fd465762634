#include "base/file_turn.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace leeway {
namespace {

// Whoever has had its turn removes the file: a lock on a file without a name excludes nobody.
bool has_name(int descriptor) {
  struct stat about = {};
  return ::fstat(descriptor, &about) == 0 && about.st_nlink > 0;
}

}  // namespace

FileTurn::FileTurn(Path file, const std::function<bool()>& goes_on) : file_(std::move(file)) {
  constexpr int kAskAgain = 20;  // milliseconds: a lock cannot be waited for and given up
  while (true) {
    descriptor_ = ::open(file_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (descriptor_ < 0) return;
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
      if (has_name(descriptor_)) return;
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      return;
    }
    ::close(std::exchange(descriptor_, -1));
    has_come_ = goes_on();
    if (!has_come_) return;
    ::poll(nullptr, 0, kAskAgain);
  }
}

FileTurn::~FileTurn() {
  if (descriptor_ < 0) return;
  ::unlink(file_.c_str());
  ::close(descriptor_);
}

}  // namespace leeway
