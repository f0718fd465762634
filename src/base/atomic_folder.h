// A folder that appears under its name complete or not at all, and disappears the same way.
#pragma once

#include "base/files.h"
#include "base/result.h"

namespace leeway {

// Files are written to a folder next to the target, NAME.preparing-PROCESS-N. It stays locked while
// its process lives, so that a later process can recognize and remove what a killed one left.
class AtomicFolder {
 public:
  // The caller has made sure that an existing `target` may be replaced.
  static Result<AtomicFolder> create(const Path& target);
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();  // without commit(): removes the folder and its content

  const Path& path() const { return work_; }  // where to write
  // Moves the folder to the target. An old target stays until then and is then removed.
  Status commit();

 private:
  AtomicFolder(Path target, Path work, int lock);
  Path target_;
  Path work_;
  int lock_ = -1;
};

// Renames first: dying halfway leaves something to clean up, never half a folder under its name.
Status remove_folder(const Path& path);

}  // namespace leeway
