// Progress on stderr: a bar with time left on a terminal, plain lines elsewhere. Respects NO_COLOR
// and dumb terminals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/time.h"

namespace leeway {

bool stderr_is_terminal();
bool colors_wanted();  // a terminal, and NO_COLOR is not set

class Progress {
 public:
  // `total` 0: unknown, no bar and no time left.
  Progress(const Clock& clock, std::string title, uint64_t total);
  ~Progress();  // clears an unfinished bar so that an error message starts on a clean line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Redraws at most ten times a second on a terminal; elsewhere prints a line at every tenth of
  // the way and at least every 30 s. `detail` is the caller's text ("loss 2.31  20k tokens/s").
  void show(uint64_t done, std::string_view detail);
  // Prints a separate line (an evaluation, a warning) without tearing the bar.
  void note(std::string_view line);
  void finish(std::string_view last_words);

 private:
  void draw(uint64_t done, std::string_view detail);
  void print_line(uint64_t done, std::string_view detail) const;
  void clear();
  std::string time_left(uint64_t done) const;

  const Clock& clock_;
  std::string title_;
  uint64_t total_;
  Nanos start_;
  Nanos last_drawn_;
  // Taken at the first show(): a resumed run begins in the middle, and time left counts from there.
  Nanos first_time_;
  uint64_t first_done_ = 0;
  uint64_t next_line_ = 0;
  bool shown_ = false;
  bool redraw_ = true;  // at the next show(), however soon
  bool terminal_;
  bool bar_visible_ = false;
};

}  // namespace leeway
