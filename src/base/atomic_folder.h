// A folder that appears under its name complete or not at all, and goes the same way.
#pragma once

#include "base/files.h"
#include "base/result.h"

namespace leeway {

// Work happens in a folder beside the target, NAME.preparing-PROCESS-N. It is locked while its
// maker lives, so that the next one to work there can tell what a killed one left behind and remove
// it.
class AtomicFolder {
 public:
  // The caller has made sure that whatever stands at `target` may be replaced.
  static Result<AtomicFolder> create(const Path& target);
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();  // without commit(): removes the folder and what is in it

  const Path& path() const { return work_; }  // where to write
  // Puts the folder in the target's place; an old one stands until then and is removed.
  Status commit();

 private:
  AtomicFolder(Path target, Path work, int lock);
  Path target_;
  Path work_;
  int lock_ = -1;
};

// Renames first: whoever dies halfway leaves something to clean up, never half of the folder.
Status remove_folder(const Path& path);

}  // namespace leeway
