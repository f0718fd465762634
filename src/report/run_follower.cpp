#include "report/run_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>

#include "config/toml_reader.h"
#include "report/run_summary.h"
#include "report/work_history.h"

namespace leeway {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kLineBytesMax = size_t{16} << 20;  // far longer than any event

struct Part {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Calls `use` with every line that ends inside the part; returns where the last one ended. Not
// memory-mapped: resuming a run truncates an incomplete line, and reading beyond the end of a
// mapped file crashes.
Result<uint64_t> each_line(const Path& path, const Part& part,
                           const std::function<Status(std::string_view)>& use) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(part.begin));
  if (!file) return file_error("read", path, errno);
  std::string buffer;
  uint64_t done = part.begin;
  uint64_t read = part.begin;
  while (read < part.end) {
    const size_t kept = buffer.size();
    const size_t wanted = std::min<uint64_t>(kPieceBytes, part.end - read);
    buffer.resize(kept + wanted);
    file.read(buffer.data() + kept, static_cast<std::streamsize>(wanted));
    const auto got = static_cast<size_t>(file.gcount());
    buffer.resize(kept + got);
    read += got;
    size_t begin = 0;
    for (size_t end = buffer.find('\n', kept); end != std::string::npos;
         end = buffer.find('\n', begin)) {
      LEEWAY_TRY(use(std::string_view(buffer).substr(begin, end - begin)));
      begin = end + 1;
    }
    done += begin;
    buffer.erase(0, begin);
    if (buffer.size() > kLineBytesMax) {
      return Error{fmt::format("{} is not an event log: it has a line of more than {} bytes",
                               path.string(), kLineBytesMax)};
    }
    if (got < wanted) break;  // truncated meanwhile
  }
  return done;
}

// The lane whose rounds carry weights: only their spread says how far apart replicas are.
std::optional<Lane> weights_lane(std::string_view method) {
  if (method == "lowbit") return Lane::kRepair;
  if (method == "allreduce" || method == "none") return std::nullopt;
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
  offset_ = 0;
  lines_ = 0;
  broken_ = false;
}

// Whether there are new ones, which supersede part of what was read.
Result<bool> RunFollower::find_resumes(uint64_t end) {
  const size_t before = resumes_.size();
  const auto look = [&](std::string_view line) -> Status {
    // The kind comes first, so millions of lines need not be parsed.
    if (line.substr(0, 24).find("resumed") == line.npos) return {};
    const auto event = Event::parse(line);
    if (event.ok() && event->kind() == "resumed") resumes_.push_back(*event);
    return {};
  };
  LEEWAY_TRY(each_line(log_of(folder_), {offset_, end}, look));
  return resumes_.size() > before;
}

Status RunFollower::read_to(uint64_t end) {
  const auto use = [&](std::string_view line) -> Status {
    ++lines_;
    const Status status = reader_->add(line);
    if (status.ok()) return {};
    broken_ = true;
    return Error{fmt::format("{}:{} is not an event ({}); remove the line to read the rest",
                             log_of(folder_).string(), lines_, status.error().message)};
  };
  LEEWAY_ASSIGN(offset_, each_line(log_of(folder_), {offset_, end}, use));
  return {};
}

Result<bool> RunFollower::poll() {
  std::error_code code;
  const uint64_t size = std::filesystem::file_size(log_of(folder_), code);
  has_log_ = !code;
  if (!has_log_) return false;
  if (size < offset_ || broken_) {
    resumes_.clear();
    start_again();
  }
  LEEWAY_ASSIGN(const bool resumed, find_resumes(size));
  if (resumed) start_again();
  const uint64_t before = offset_;
  LEEWAY_TRY(read_to(size));
  cut_ = offset_ < size;
  return resumed || offset_ != before;
}

RunData RunFollower::data() const {
  RunData data = reader_->data();
  data.folder = folder_.string();
  data.config = config_;
  data.notes.insert(data.notes.begin(), notes_.begin(), notes_.end());
  if (!has_log_) data.notes.push_back("there is no events.jsonl, so there are no curves");
  data.cut = cut_;
  data.written_at = written_at(log_of(folder_));
  estimate_allreduce(data, reader_->parameters());
  add_summary(data, folder_, has_log_);
  add_progress(data, *reader_);
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
