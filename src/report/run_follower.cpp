#include "report/run_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <map>

#include "config/toml_reader.h"
#include "report/run_summary.h"
#include "report/work_history.h"

namespace leeway {
namespace {

// The lane whose rounds carry weights: only their spread says how far apart replicas are.
std::optional<Lane> weights_lane(std::string_view method) {
  if (method == "lowbit" || method == "allreduce" || method == "none") return std::nullopt;
  return Lane::kMain;
}

std::string plain_text(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : toml_text(value);
}

Path log_of(const Path& folder) { return folder / "events.jsonl"; }

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> written_at(const Path& file) {
  std::error_code code;
  const auto time = std::filesystem::last_write_time(file, code);
  if (code) return std::nullopt;
  const auto since = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

// How far the run is: what follows from its log and its configuration together.
void add_progress(RunData& data, const RunReader& reader) {
  Headline& headline = data.headline;
  Series& rates = data.curves[static_cast<size_t>(Curve::kLearningRate)];
  const auto rate = number_in<double>(data.setting("optimizer.rate"));
  rates = rate ? reader.learning_rate(*rate) : Series();
  if (const auto points = rates.points(); !points.empty()) {
    headline.learning_rate = points.back().value;
  }
  headline.updates_wanted = number_in<int64_t>(data.setting("run.updates"));
  if (data.train_tokens > 0) {
    headline.epochs = static_cast<double>(headline.tokens) / static_cast<double>(data.train_tokens);
  }
  const auto seconds = reader.seconds_per_update();
  if (data.state == RunState::kUnfinished && headline.updates_wanted && seconds) {
    const int64_t left = std::max<int64_t>(0, *headline.updates_wanted - headline.updates);
    headline.seconds_left = static_cast<double>(left) * *seconds;
  }
}

}  // namespace

RunFollower::RunFollower(Path folder, const RunLimits& limits)
    : folder_(std::move(folder)), limits_(limits) {}

Result<RunFollower> RunFollower::open(const Path& folder, const RunLimits& limits) {
  LEEWAY_TRY(check_is_run(folder));
  RunFollower follower(folder, limits);
  const Path path = folder / "config.toml";
  LEEWAY_ASSIGN(const std::string text, read_text(path));
  const auto entries = read_toml(text, path.string());
  if (!entries.ok()) {
    follower.notes_.push_back("the configuration is left out: " + entries.error().message);
  } else {
    for (const TomlEntry& entry : *entries) {
      if (!entry.is_table) follower.config_.emplace_back(entry.path, plain_text(entry.value));
    }
  }
  follower.start_again();
  return follower;
}

void RunFollower::start_again() {
  RunData settings;
  settings.config = config_;
  reader_.emplace(limits_, resumes_, weights_lane(settings.setting("averaging.method")));
  position_ = {};
  broken_ = false;
}

// Whether there are new ones, which supersede part of what was read.
Result<bool> RunFollower::find_resumes(const LogPosition& end) {
  LEEWAY_ASSIGN(const auto found, read_resumes(log_of(folder_), position_, end));
  resumes_.insert(resumes_.end(), found.begin(), found.end());
  return !found.empty();
}

Status RunFollower::read_to(const LogPosition& end) {
  const auto use = [&](const LogLine& line) -> Result<bool> {
    const Status status = reader_->add(line.text);
    if (status.ok()) return true;
    broken_ = true;
    return not_an_event(line, status.error());
  };
  LEEWAY_ASSIGN(const LogRead read, read_log(log_of(folder_), position_, end, use));
  position_ = read.end;
  cut_ = !read.rest.empty();
  return {};
}

Result<bool> RunFollower::poll() {
  const std::optional<LogPosition> end = log_end(log_of(folder_));
  has_log_ = end.has_value();
  if (!has_log_) return false;
  const bool shrunk =
      end->part < position_.part || (end->part == position_.part && end->offset < position_.offset);
  if (shrunk || broken_) {
    resumes_.clear();
    start_again();
  }
  LEEWAY_ASSIGN(const bool resumed, find_resumes(*end));
  if (resumed) start_again();
  const LogPosition before = position_;
  LEEWAY_TRY(read_to(*end));
  return resumed || position_ != before;
}

RunData RunFollower::data() const {
  RunData data = reader_->data();
  data.folder = folder_.string();
  data.config = config_;
  data.notes.insert(data.notes.begin(), notes_.begin(), notes_.end());
  if (!has_log_) data.notes.push_back("there is no events.jsonl, so there are no curves");
  data.cut = cut_;
  data.written_at = written_at(log_of(folder_));
  estimate_allreduce(data, reader_->parameters(), reader_->shifted_allreduce_bytes());
  add_summary(data, folder_, has_log_);
  add_progress(data, *reader_);
  if (const auto replicas = number_in<int64_t>(data.setting("mesh.replicas"))) {
    data.members = reader_->members(*replicas);
  }
  if (data.state == RunState::kDiverged) {
    data.notes.push_back(
        "the run diverged: it stopped at an update whose loss or gradient is not finite; this is "
        "its state until then");
  }
  if (data.headline.updates == 0) data.notes.push_back("no update was completed");
  return data;
}

Result<RunData> read_run(const Path& folder, const RunLimits& limits) {
  LEEWAY_ASSIGN(RunFollower follower, RunFollower::open(folder, limits));
  LEEWAY_TRY(follower.poll());
  return follower.data();
}

void name_runs(std::vector<RunData>& runs) {
  std::map<std::string, int> uses;
  for (RunData& run : runs) {
    const Path path = std::filesystem::absolute(run.folder).lexically_normal();
    run.name = (path.has_filename() ? path : path.parent_path()).filename().string();
    ++uses[run.name];
  }
  for (RunData& run : runs) {
    if (uses[run.name] > 1) run.name = run.folder;
  }
}

}  // namespace leeway
