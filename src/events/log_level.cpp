#include "events/log_level.h"

#include <algorithm>
#include <array>

namespace leeway {
namespace {

constexpr std::array<std::string_view, 3> kLevelWords = {"auto", "all", "updates"};

constexpr int64_t kFirst = 50;
constexpr int64_t kEvery = 250;
constexpr int64_t kFrom = 131;
constexpr int64_t kLength = 10;

// Kept by every level: what weights depend on besides the recipe, and what is rare.
bool is_always_logged(WorkKind kind) {
  return is_of_round(kind) || kind == WorkKind::kSave || kind == WorkKind::kAdopt;
}

// The update that a session of this replica resumed from; 0: it started there.
int64_t update_before(const Event& start, ReplicaId replica) {
  const int64_t common = start.integer("update").value_or(0);
  return start.integer("update_" + std::to_string(replica.value)).value_or(common);
}

}  // namespace

std::string_view log_level_word(LogLevel level) { return kLevelWords[static_cast<size_t>(level)]; }

bool logs_work_of(LogLevel level, int64_t update) {
  if (level != LogLevel::kAuto) return level == LogLevel::kAll;
  return update <= kFirst || (update >= kFrom && (update - kFrom) % kEvery < kLength);
}

bool logs(LogLevel level, const Work& work, int64_t making) {
  if (is_always_logged(work.kind) || logs_work_of(level, making)) return true;
  return work.kind == WorkKind::kUpdate && logs_work_of(level, making + 1);
}

void LogCoverage::note(const Event& event) {
  if (event.kind() != "started" && event.kind() != "resumed") return;
  const auto found =
      std::find(kLevelWords.begin(), kLevelWords.end(), event.text("log").value_or("all"));
  const LogLevel level = found == kLevelWords.end()
                             ? LogLevel::kAll
                             : static_cast<LogLevel>(found - kLevelWords.begin());
  sessions_.push_back({level, event});
}

LogLevel LogCoverage::level_of(ReplicaId replica, int64_t update) const {
  for (auto session = sessions_.rbegin(); session != sessions_.rend(); ++session) {
    if (update > update_before(session->start, replica)) return session->level;
  }
  return sessions_.empty() ? LogLevel::kAll : sessions_.front().level;
}

bool LogCoverage::has_work_of(ReplicaId replica, int64_t update) const {
  return logs_work_of(level_of(replica, update), update);
}

bool LogCoverage::has(ReplicaId replica, const Work& work, int64_t making) const {
  return logs(level_of(replica, making), work, making);
}

bool LogCoverage::complete() const {
  return std::all_of(sessions_.begin(), sessions_.end(),
                     [](const Session& session) { return session.level == LogLevel::kAll; });
}

int64_t LogCoverage::resumed_from(ReplicaId replica) const {
  return sessions_.empty() ? 0 : update_before(sessions_.back().start, replica);
}

bool LogCoverage::covers(int64_t updates) const {
  if (complete()) return true;
  for (int64_t update = 1; update <= updates + 1; ++update) {  // the next one has begun
    if (!has_work_of({0}, update)) return false;
  }
  return true;
}

std::string LogCoverage::text(int64_t last) const {
  std::vector<std::string> stretches;
  int64_t begin = 0;  // of the stretch that is open; 0: none is
  for (int64_t update = 1; update <= last + 1; ++update) {
    const bool logged = update <= last && has_work_of({0}, update);
    if (logged && begin == 0) begin = update;
    if (logged || begin == 0) continue;
    stretches.push_back(std::to_string(begin));
    if (update - 1 > begin) stretches.back() += " to " + std::to_string(update - 1);
    begin = 0;
  }
  if (stretches.empty()) return "none";
  constexpr size_t kNamed = 3;
  std::string text = stretches.front();
  for (size_t i = 1; i < stretches.size(); ++i) {
    const bool named = i < kNamed - 1 || i + 1 == stretches.size();
    if (named) text += ", " + stretches[i];
    if (i == kNamed - 1 && !named) text += ", ...";
  }
  return text;
}

void LoggedStretches::note(const Event& event) {
  coverage_.note(event);
  if (event.kind() != "started" && event.kind() != "resumed") return;
  workers_.clear();
  ++stretches_;
}

std::optional<size_t> LoggedStretches::place(const WorkRecord& record) {
  if (coverage_.complete()) return stretches_;
  const ReplicaId replica = record.worker.replica;
  const auto [found, first] = workers_.try_emplace(record.worker);
  Standing& standing = found->second;
  if (first) standing = {coverage_.resumed_from(replica) + 1, ++stretches_};
  const bool inside = coverage_.has_work_of(replica, standing.making);
  if (record.work.kind != WorkKind::kUpdate) {
    return inside ? std::optional(standing.stretch) : std::nullopt;
  }
  standing.making = record.work.update + 1;
  if (!inside && coverage_.has_work_of(replica, standing.making)) {
    standing.stretch = ++stretches_;
    return standing.stretch;  // the update before the stretch, with which it begins
  }
  return inside ? std::optional(standing.stretch) : std::nullopt;
}

}  // namespace leeway
