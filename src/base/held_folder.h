// A folder held open, and locked for one process. Paths through the handle lead to this folder even
// after it is renamed, and never to another that has taken its name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

class HeldFolder {
 public:
  // Makes the folder if there is none. Fails with a sentence that names the holder if another
  // process, or another HeldFolder of this one, holds it. The lock ends with its holder, however
  // that ends.
  static Result<HeldFolder> hold(const Path& path);
  HeldFolder(HeldFolder&& other) noexcept;
  HeldFolder& operator=(HeldFolder&&) = delete;
  ~HeldFolder();  // removes the lock

  bool locked() const { return lock_ >= 0; }  // false: the file system has no locks
  const Path& path() const { return path_; }  // as it was named, for messages
  Path at(std::string_view name) const;       // through the handle
  Status check_present() const;               // an error if the folder has been removed
  uint64_t free_bytes() const;                // on its disk, for this user

 private:
  HeldFolder(Path path, int folder) : path_(std::move(path)), folder_(folder) {}
  Path path_;
  int folder_ = -1;
  int lock_ = -1;
};

// "process 4242 on ox since 2026-11-16 07:09:28 UTC", if a process holds the folder now.
std::optional<std::string> holder_of(const Path& folder);

// The file in a folder that carries the lock.
inline constexpr const char* kLockFile = ".lock";

}  // namespace leeway
