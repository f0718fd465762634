// A program that runs beside this one, with its words going to a file.
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
  // How it ended: by itself with a status, or by a signal.
  struct End {
    int status = 0;
    int signal = 0;  // 0: none
  };

  // `words` begin with the name that it goes by. Standard output and standard error go to `log`,
  // which starts empty; there is no input. The child is in a process group of its own: Ctrl-C on
  // the terminal reaches this process alone, which decides. When the calling thread ends, however
  // it does, the child is killed: nobody would know of it.
  static Result<Child> start(const Path& program, const std::vector<std::string>& words,
                             const Path& log);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();  // kills and buries one that still runs

  void ask_to_end();           // SIGTERM
  std::optional<End> ended();  // does not wait

  // Until one of them has ended, a signal came, or the time is over.
  static void wait(const std::vector<const Child*>& children, Nanos at_most);

 private:
  Child(int process, int descriptor) : process_(process), descriptor_(descriptor) {}
  int process_ = -1;     // -1: it has ended and was asked for
  int descriptor_ = -1;  // readable when it has ended
  std::optional<End> end_;
};

// The program that runs now, for more of it, whatever has become of its file.
Path this_program();

}  // namespace leeway
