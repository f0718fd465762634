#include "dashboard/live_run.h"

#include <algorithm>

#include "report/report_page.h"

namespace leeway {
namespace {

constexpr Nanos kOftenest = {900'000'000};
constexpr Nanos kRarest = {5'000'000'000};
constexpr int64_t kPause = 100;  // times the duration of a look, which mostly waits for a core

// A page redrawn every second needs less detail than a report.
constexpr RunLimits kLimits = {.points_max = 600, .pieces_max = 3000, .boxes_max = 1500};

std::filesystem::file_time_type time_of(const Path& file) {
  std::error_code code;  // missing file: a time that no file has
  const auto time = std::filesystem::last_write_time(file, code);
  return code ? std::filesystem::file_time_type() : time;
}

}  // namespace

void LiveRun::follow(const Path& folder, RunWriter writer) {
  const std::lock_guard lock(reading_);
  folder_ = folder;
  writer_ = writer;
  follower_.reset();
  next_look_ = {};
}

std::shared_ptr<const Snapshot> LiveRun::newest() const {
  const std::lock_guard lock(showing_);
  return newest_;
}

std::shared_ptr<const Snapshot> LiveRun::look() {
  std::unique_lock lock(reading_, std::try_to_lock);
  if (!lock.owns_lock()) {
    // Another thread is reading: use the last snapshot, if there is one.
    if (auto snapshot = newest()) return snapshot;
    lock.lock();
  }
  if (newest() == nullptr || clock_.now() >= next_look_) read(/*anew=*/false);
  return newest();
}

std::shared_ptr<const Snapshot> LiveRun::last_look() {
  const std::lock_guard lock(reading_);
  writer_ = RunWriter::kAnother;
  read(/*anew=*/true);
  return newest();
}

void LiveRun::read(bool anew) {
  const Nanos begin = clock_.now();
  const auto before = newest();
  if (read_more() || anew || before == nullptr) {
    Snapshot made = make_snapshot();
    made.number = before == nullptr ? 1 : before->number + 1;
    const std::lock_guard lock(showing_);
    newest_ = std::make_shared<const Snapshot>(std::move(made));
  }
  const Nanos took = clock_.now() - begin;
  next_look_ = begin + std::clamp(Nanos{kPause * took.count}, kOftenest, kRarest);
}

// Whether there is something new to show.
bool LiveRun::read_more() {
  if (folder_.empty()) return false;
  const Stamp stamp = {time_of(folder_ / "config.toml"), time_of(folder_ / "summary.json")};
  bool changed = stamp != stamp_;
  if (stamp.config != stamp_.config) follower_.reset();  // another session, or another run
  stamp_ = stamp;
  if (!follower_) {
    auto opened = RunFollower::open(folder_, kLimits);
    if (!opened.ok()) return changed;  // the run has not begun
    follower_.emplace(std::move(*opened));
    changed = true;
  }
  const auto polled = follower_->poll();
  const std::string problem = polled.ok() ? "" : polled.error().message;
  changed = changed || problem != problem_ || (polled.ok() && *polled);
  problem_ = problem;
  return changed;
}

Snapshot LiveRun::make_snapshot() const {
  RunData run;
  if (follower_) {
    run = follower_->data();
  } else {
    run.name = "not started";
    run.folder = folder_.string();
    run.notes.push_back("the run has not begun yet: its data is being prepared");
  }
  if (!problem_.empty()) run.notes.push_back(problem_);
  Snapshot made;
  const bool has_summary = stamp_.summary != std::filesystem::file_time_type();
  const bool over = run.state == RunState::kDiverged ||  // diverged runs have no summary
                    (run.state != RunState::kUnfinished && has_summary);
  made.ended = writer_ == RunWriter::kAnother && over;
  if (follower_ && writer_ == RunWriter::kThisProgram && run.state != RunState::kDiverged) {
    run.state = RunState::kRunning;  // though the folder may have the end of an earlier session
  }
  made.runs.push_back(std::move(run));
  if (!folder_.empty()) name_runs(made.runs);
  made.title = "Run " + made.runs.front().name;
  nlohmann::ordered_json data = page_data(made.runs, {.title = made.title});
  data["ended"] = made.ended;
  made.data = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return made;
}

}  // namespace leeway
