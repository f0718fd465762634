#include "terminal/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/human.h"
#include "terminal/say.h"

namespace leeway {
namespace {

constexpr Nanos kRedraw{100'000'000};      // smooth to the eye
constexpr Nanos kLine{1'000'000'000};      // often enough for a log
constexpr Nanos kSilence{30'000'000'000};  // longest time without a line in a log
constexpr size_t kBarMax = 24;             // columns
constexpr size_t kBarMin = 8;

size_t terminal_width() {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string bar_of(double share, size_t width) {
  const auto filled = static_cast<size_t>(share * static_cast<double>(width));
  const bool color = colors_wanted();
  return fmt::format("[{}{:=<{}}{}{:{}}]", color ? "\033[36m" : "", "", filled,
                     color ? "\033[0m" : "", "", width - filled);
}

}  // namespace

bool stderr_is_terminal() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

bool colors_wanted() {
  const char* refused = std::getenv("NO_COLOR");  // no-color.org: any non-empty value
  return stderr_is_terminal() && (refused == nullptr || *refused == '\0');
}

Progress::Progress(const Clock& clock, std::string title, uint64_t total)
    : clock_(clock),
      title_(std::move(title)),
      total_(total),
      start_(clock.now()),
      last_drawn_(start_),
      next_line_(total / 10),
      terminal_(stderr_is_terminal()) {}

Progress::~Progress() { clear(); }

void Progress::show(uint64_t done, std::string_view detail) {
  const Nanos now = clock_.now();
  if (!shown_) {
    shown_ = true;
    first_time_ = now;
    first_done_ = done;
    while (total_ >= 10 && next_line_ <= done && next_line_ < total_) next_line_ += total_ / 10;
  }
  if (terminal_) {
    if (!redraw_ && now - last_drawn_ < kRedraw) return;
    draw(done, detail);
  } else {
    const bool tenth = total_ > 0 && done >= next_line_ && now - last_drawn_ >= kLine;
    if (!tenth && now - last_drawn_ < kSilence) return;
    while (tenth && next_line_ <= done) next_line_ += std::max<uint64_t>(total_ / 10, 1);
    print_line(done, detail);
  }
  redraw_ = false;
  last_drawn_ = now;
}

void Progress::note(std::string_view line) {
  clear();
  say(fmt::format("{}\n", line));
  redraw_ = true;
}

void Progress::finish(std::string_view last_words) {
  clear();
  const std::string took = human_seconds((clock_.now() - start_).seconds());
  say(fmt::format("{}: {} in {}\n", title_, last_words, took));
}

std::string Progress::time_left(uint64_t done) const {
  if (total_ == 0 || done <= first_done_ || done >= total_) return {};
  const double seconds = (clock_.now() - first_time_).seconds();
  const double rate = static_cast<double>(done - first_done_) / seconds;
  if (seconds < 0.5) return {};  // Too early to tell.
  return human_seconds(static_cast<double>(total_ - done) / rate) + " left";
}

void Progress::print_line(uint64_t done, std::string_view detail) const {
  std::string line = title_;
  if (total_ > 0) line += fmt::format(" {:3}%", std::min<uint64_t>(100, done * 100 / total_));
  if (!detail.empty()) line.append("  ").append(detail);
  if (const std::string left = time_left(done); !left.empty()) line.append("  ").append(left);
  say(fmt::format("{}\n", line));
}

void Progress::draw(uint64_t done, std::string_view detail) {
  std::string tail;
  if (!detail.empty()) tail.append("  ").append(detail);
  if (const std::string left = time_left(done); !left.empty()) tail.append("  ").append(left);
  std::string head = title_ + " ";
  std::string bar;
  // A line that wraps could not be cleared, so the bar shrinks first, then the text is cut.
  const size_t width = terminal_width() - 1;
  if (total_ > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
    tail = fmt::format(" {:3.0f}%", share * 100.0) + tail;
    const size_t words = head.size() + 2 + tail.size();
    if (words + kBarMin <= width) bar = bar_of(share, std::min(kBarMax, width - words));
  }
  if (bar.empty()) {
    head = (head + tail).substr(0, width);
    tail.clear();
  }
  say("\r\033[K" + head + bar + tail);
  bar_visible_ = true;
}

void Progress::clear() {
  if (!bar_visible_) return;
  say("\r\033[K");
  bar_visible_ = false;
}

}  // namespace leeway
