// A child process whose output goes to a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/time.h"

namespace leeway {

class Child {
 public:
  // How it ended: with an exit status, or by a signal.
  struct End {
    int status = 0;
    int signal = 0;  // 0: none
  };

  // `words` is argv, starting with the program's name. Standard output and standard error go to
  // `log`, which is emptied first; standard input is empty. The child gets its own process group,
  // so Ctrl-C reaches only this process, which decides what to do. When the calling thread ends,
  // for whatever reason, the child is killed, so that none is orphaned.
  static Result<Child> start(const Path& program, const std::vector<std::string>& words,
                             const Path& log);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();  // kills and reaps a child that still runs

  void ask_to_end();           // SIGTERM
  std::optional<End> ended();  // does not wait

  // Waits until a child has ended, a signal has arrived, or the time is up.
  static void wait(const std::vector<const Child*>& children, Nanos at_most);

 private:
  Child(int process, int descriptor) : process_(process), descriptor_(descriptor) {}
  int process_ = -1;     // -1: it has ended and was reaped
  int descriptor_ = -1;  // readable when it has ended
  std::optional<End> end_;
};

// This program's executable, to start another copy of it; works even if its file was replaced.
Path this_program();

}  // namespace leeway
