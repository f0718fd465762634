#include "compare/run_missing.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/atomic_folder.h"
#include "base/child.h"
#include "base/human.h"
#include "config/print.h"
#include "events/event.h"
#include "events/log_files.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

namespace leeway {
namespace {

constexpr Nanos kLook{250'000'000};  // between two checks of the runs' progress
constexpr uint64_t kTail = 1 << 16;  // bytes; includes the last update

struct Running {
  size_t index;  // in plan.runs
  Child child;
  int64_t update = 0;
};

std::string title_of(const ComparisonPlan& plan, const PlannedRun& run) {
  std::string title = shown(plan.comparison.variants[run.variant].name, kShortBytes);
  if (plan.comparison.rates.size() > 1) title += fmt::format(" x{:g}", run.rate);
  return title + fmt::format(" seed {}", run.seed);
}

// The last event of this kind in the log. Logs are long, so only the end is read.
std::optional<Event> last_event(const Path& run, std::string_view kind) {
  const Path log = run / "events.jsonl";
  const std::optional<LogPosition> end = log_end(log);
  if (!end) return std::nullopt;
  const std::string start = fmt::format("{{\"event\":\"{}\"", kind);
  std::optional<Event> last;
  const auto use = [&](const LogLine& line) -> Result<bool> {
    if (!line.text.starts_with(start)) return true;
    const Result<Event> event = Event::parse(line.text);
    if (event.ok()) last = *event;
    return true;
  };
  LogPosition from = {.part = end->part, .offset = end->offset - std::min(end->offset, kTail)};
  if (from.offset == 0 && from.part > 1) --from.part;  // the last part has only just begun
  static_cast<void>(read_log(log, from, *end, use));
  return last;
}

int64_t last_update(const Path& run) {
  const auto event = last_event(run, "update");
  return event ? event->integer("update").value_or(0) : 0;
}

// The signal that killed a run, or that made it save and exit; 0: none.
int signal_of(const Child::End& end) {
  return end.signal != 0 ? end.signal : std::max(0, end.status - 128);
}

// The program's last error message, or how else it ended.
std::string why_it_failed(const Path& run, const Path& log, const Child::End& end) {
  if (const auto diverged = last_event(run, "diverged"))
    return fmt::format("diverged at update {}", diverged->integer("update").value_or(0) + 1);
  std::ifstream lines(log);
  std::string sentence;
  constexpr std::string_view kMark = "leeway: ";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kMark)) sentence = line.substr(kMark.size());
  }
  if (const int signal = signal_of(end)) return fmt::format("stopped by signal {}", signal);
  if (!sentence.empty()) return sentence;
  return fmt::format("exited with status {}; see {}", end.status, log.string());
}

class Runs {
 public:
  Runs(const ComparisonPlan& plan, Path folder, const Clock& clock,
       std::vector<std::optional<RunOutcome>>& outcomes)
      : plan_(plan),
        folder_(std::move(folder)),
        outcomes_(outcomes),
        progress_(clock, "comparing", updates_in_all()) {}

  Status all(int64_t jobs) {
    if (done() > 0) progress_.note(done_of_all() + " already done");
    show();
    size_t next = 0;
    while (!interrupted()) {
      while (std::ssize(running_) < jobs && next < outcomes_.size()) {
        if (!outcomes_[next]) LEEWAY_TRY(start(next));
        ++next;
      }
      if (running_.empty()) {
        progress_.finish(counted(can_run(), "run"));
        return {};
      }
      LEEWAY_TRY(wait());
      show();
    }
    return stop();
  }

 private:
  // A refused run never runs, so it does not count.
  uint64_t updates_of(size_t index) const {
    const PlannedRun& run = plan_.runs[index];
    return run.refused.empty() ? static_cast<uint64_t>(run.recipe.recipe.run.updates) : 0;
  }

  uint64_t updates_in_all() const {
    uint64_t all = 0;
    for (size_t i = 0; i < plan_.runs.size(); ++i) all += updates_of(i);
    return all;
  }

  size_t can_run() const {
    return static_cast<size_t>(
        std::ranges::count_if(plan_.runs, &std::string::empty, &PlannedRun::refused));
  }

  size_t done() const {
    size_t count = 0;
    for (size_t i = 0; i < outcomes_.size(); ++i)
      count += plan_.runs[i].refused.empty() && outcomes_[i] ? 1 : 0;
    return count;
  }

  std::string done_of_all() const {
    return fmt::format("{} of {}", done(), counted(can_run(), "run"));
  }

  void show() {
    uint64_t updates = 0;
    for (size_t i = 0; i < outcomes_.size(); ++i) updates += outcomes_[i] ? updates_of(i) : 0;
    for (Running& run : running_) {
      run.update = std::max(run.update, last_update(run_folder(folder_, plan_.runs[run.index])));
      updates += static_cast<uint64_t>(run.update);
    }
    progress_.show(updates, done_of_all() + " done");
  }

  Status start(size_t index) {
    const PlannedRun& run = plan_.runs[index];
    const Path path = run_folder(folder_, run);
    std::error_code code;  // a missing folder need not be removed
    if (std::filesystem::exists(path, code)) LEEWAY_TRY(remove_folder(path));
    LEEWAY_TRY(write_atomically(run_recipe(folder_, run), print_recipe(run.recipe)));
    LEEWAY_ASSIGN(Child child, Child::start(this_program(),
                                            {"leeway", "train", run_recipe(folder_, run).string(),
                                             "--out", path.string()},
                                            run_log(folder_, run)));
    running_.push_back({index, std::move(child)});
    return {};
  }

  // Waits until a run ends or kLook has passed, then collects the runs that have ended.
  Status wait() {
    std::vector<const Child*> children;
    for (const Running& run : running_) children.push_back(&run.child);
    Child::wait(children, kLook);
    for (size_t i = 0; i < running_.size();) {
      const auto end = running_[i].child.ended();
      if (end && !interrupted()) LEEWAY_TRY(take_in(running_[i].index, *end));
      if (end) {
        running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    return {};
  }

  Status take_in(size_t index, const Child::End& end) {
    const PlannedRun& run = plan_.runs[index];
    if (end.status == 0)
      outcomes_[index] = read_outcome(folder_, run, plan_.comparison.target_loss);
    if (!outcomes_[index]) {
      const std::string why = why_it_failed(run_folder(folder_, run), run_log(folder_, run), end);
      // Being stopped may not happen again; the program's own failure would.
      if (signal_of(end) == 0) LEEWAY_TRY(write_atomically(run_failure(folder_, run), why));
      outcomes_[index] = RunOutcome{.loss = {}, .why = why};
    }
    const RunOutcome& outcome = *outcomes_[index];
    progress_.note(fmt::format(
        "{}: {}", title_of(plan_, run),
        outcome.loss ? fmt::format("{:.4f}", *outcome.loss) : "failed: " + shown(outcome.why)));
    return {};
  }

  Status stop() {
    for (Running& run : running_) run.child.ask_to_end();
    while (!running_.empty()) LEEWAY_TRY(wait());
    return stopped_error(
        fmt::format("stopped with {} done; run the same command to continue", done_of_all()));
  }

  const ComparisonPlan& plan_;
  Path folder_;
  std::vector<std::optional<RunOutcome>>& outcomes_;
  Progress progress_;
  std::vector<Running> running_;
};

}  // namespace

Status run_missing(const ComparisonPlan& plan, const Path& folder, int64_t jobs, const Clock& clock,
                   std::vector<std::optional<RunOutcome>>& outcomes) {
  return Runs(plan, folder, clock, outcomes).all(jobs);
}

}  // namespace leeway
