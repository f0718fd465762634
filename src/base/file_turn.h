// One at a time, of all processes and threads of a machine that do the same: whoever has the turn
// holds the lock of a file. It ends with its holder, however that ends; the file is then removed.
#pragma once

#include <functional>

#include "base/files.h"

namespace leeway {

class FileTurn {
 public:
  // Waits for the turn. `goes_on` is asked while others have it; false: it is waited for no longer.
  // Where files have no locks, or the file cannot be made, everybody has a turn at once.
  FileTurn(Path file, const std::function<bool()>& goes_on);
  ~FileTurn();
  FileTurn(const FileTurn&) = delete;
  FileTurn& operator=(const FileTurn&) = delete;

  // False: it was given up.
  bool has_come() const { return has_come_; }

 private:
  Path file_;
  int descriptor_ = -1;
  bool has_come_ = true;
};

}  // namespace leeway
