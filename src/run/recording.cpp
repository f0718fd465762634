#include "run/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "base/human.h"
#include "base/names.h"
#include "events/event_log.h"
#include "run/run_folder.h"
#include "run/training_run.h"

namespace leeway {
namespace {

Status check_version(const Event& event, const Path& run) {
  const std::string recorded = event.text("version").value_or("an unknown version");
  if (recorded == program_version()) return {};
  return Error{fmt::format(
      "{} was run by leeway {}, but this is leeway {}, which may give different bits; replay with "
      "the version that ran it",
      run.string(), recorded, program_version())};
}

Status note(const Event& event, const Path& run, Recording& recording) {
  const std::string& kind = event.kind();
  const int64_t update = event.integer("update").value_or(0);
  if (kind == "started" || kind == "resumed") LEEWAY_TRY(check_version(event, run));
  if (kind == "members") {
    recording.left = replicas_of(event.text("replicas").value_or("?"));
    if (!recording.left) return Error{"a line about members has no valid \"replicas\""};
    if (event.find("joined") != nullptr) {
      return Error{fmt::format(
          "a replica of {} was lost and came back after update {}, with the state of another; such "
          "a run cannot be replayed",
          run.string(), update)};
    }
  }
  if (kind == "resumed" && recording.left) {
    return Error{fmt::format(
        "{} lost a replica and was resumed with a copy of another at update {}; such a run cannot "
        "be replayed",
        run.string(), update)};
  }
  if (event.find(kTickName) != nullptr) {
    return Error{fmt::format(
        "the log of {0} has only the work of one of the run's processes; merge it with those of "
        "the others, and replay the result: leeway merge {1} OTHER... --out MERGED",
        run.string(), shell_word(run.string()))};
  }
  recording.coverage.note(event);
  if (kind == "started") recording.data_hash = event.text("data_hash").value_or("");
  if (kind == "update") recording.losses[update] = event.number("loss").value_or(0);
  if (kind == "update" && event.text("replicas")) {
    const auto replicas = replicas_of(*event.text("replicas"));
    if (!replicas) return Error{"an update has no valid \"replicas\""};
    recording.made_by[update] = *replicas;
  }
  if (kind == "ended") recording.updates = update;
  const std::string change = event.text("change").value_or("");
  const bool only_flushes = change.starts_with("run.checkpoint_every ");  // which are recorded
  if (kind == "changed" && !only_flushes) {
    return Error{fmt::format(
        "{} was resumed with a changed recipe at update {} ({}); only a run with one recipe can be "
        "replayed",
        run.string(), update, change)};
  }
  if (kind == "lost") {
    return Error{
        fmt::format("the log of {} lacks {} events, for which the disk had no room: the run "
                    "cannot be replayed",
                    run.string(), event.integer("events").value_or(0))};
  }
  if (kind == kWorkEvent) {
    LEEWAY_ASSIGN(const WorkRecord record, work_of(event));
    recording.work.push_back(record);
  }
  return {};
}

// A session that was killed right after its checkpoint may not have logged that all its workers had
// saved; the next session did.
std::vector<std::vector<int64_t>> flushes_of(const std::vector<Event>& resumes,
                                             const std::vector<WorkRecord>& work) {
  std::vector<std::set<int64_t>> found;
  for (const WorkRecord& record : work) {
    const auto replica = static_cast<size_t>(record.worker.replica.value);
    if (replica >= ReplicaSet::kReplicasMax) continue;  // no run has so many; the replay says so
    found.resize(std::max(found.size(), replica + 1));
    if (record.work.kind == WorkKind::kSave) found[replica].insert(record.work.update);
  }
  for (auto it = resumes.begin(); it != resumes.end(); ++it) {
    const bool repeated = std::any_of(it + 1, resumes.end(),
                                      [&](const Event& later) { return supersedes(later, *it); });
    for (size_t r = 0; r < found.size() && !repeated; ++r) {
      const auto own = it->integer(fmt::format("update_{}", r));
      found[r].insert(own.value_or(it->integer("update").value_or(0)));
    }
  }
  std::vector<std::vector<int64_t>> flushes;
  for (const std::set<int64_t>& replica : found)
    flushes.emplace_back(replica.begin(), replica.end());
  return flushes;
}

Status check_is_whole_run(const Path& run) {
  LEEWAY_TRY(check_log_is_of_run(run));
  LEEWAY_ASSIGN(const RunFolderState state, run_folder_state(run));
  if (state != RunFolderState::kNone) return {};
  return usage_error(fmt::format("{} is not a run folder; name one that `leeway train --out` wrote",
                                 run.string()));
}

Result<std::string> recorded_hash(const Path& run) {
  const Result<std::string> text = read_text(run / "summary.json");
  if (!text) {
    return Error{
        fmt::format("{} has no summary.json: the run has not ended; resume it: leeway resume {}",
                    run.string(), shell_word(run.string()))};
  }
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const bool has_hash = json.is_object() && json.contains("weights_hash");
  if (!has_hash || !json["weights_hash"].is_string()) {
    return Error{(run / "summary.json").string() +
                 " has no weights_hash; another version wrote it"};
  }
  return json["weights_hash"].get<std::string>();
}

}  // namespace

Result<Recording> read_recording(const Path& run) {
  LEEWAY_TRY(check_is_whole_run(run));
  Recording recording;
  LEEWAY_ASSIGN(recording.weights_hash, recorded_hash(run));
  const Path path = run / "events.jsonl";
  const std::optional<LogPosition> end = log_end(path);
  if (!end) return file_error("read", path, ENOENT);
  LEEWAY_ASSIGN(const std::vector<Event> resumes, read_resumes(path, {}, *end));
  auto next = resumes.begin();
  const auto use = [&](const LogLine& line) -> Result<bool> {
    const auto event = Event::parse(line.text);
    if (!event.ok()) return not_an_event(line, event.error());
    if (event->kind() == "resumed" && next != resumes.end()) ++next;
    const bool repeated = std::any_of(
        next, resumes.end(), [&](const Event& resumed) { return supersedes(resumed, *event); });
    if (!repeated) LEEWAY_TRY(note(*event, run, recording));
    return true;
  };
  LEEWAY_ASSIGN(const LogRead read, read_log(path, {}, *end, use));
  recording.flushes = flushes_of(resumes, recording.work);
  recording.resumed = !resumes.empty();
  for (const std::vector<int64_t>& flushes : recording.flushes)  // a session ends with a save
    recording.ends.push_back(std::max(recording.updates, flushes.empty() ? 0 : flushes.back()));
  if (recording.data_hash.empty() || !read.rest.empty() || recording.updates == 0 ||
      recording.work.empty()) {
    return Error{
        fmt::format("{} is cut off before the end of the run, so the end cannot be compared; "
                    "restore the whole file",
                    path.string())};
  }
  return recording;
}

ReplicaSet Recording::members_at(int64_t update) const {
  const auto found = made_by.find(update);
  return found != made_by.end() ? found->second : ReplicaSet::first(std::ssize(ends));
}

Result<RunPlan> plan_to_repeat(const Recording& recording, const Recipe& recipe,
                               const MeshData& mesh) {
  if (std::ssize(recording.flushes) != recipe.mesh.replicas) {
    return Error{
        fmt::format("the log has the work of {}, but the recipe has {}; restore the whole "
                    "log",
                    counted(recording.flushes.size(), "replica"), recipe.mesh.replicas)};
  }
  RunPlan plan = make_plan(recipe, mesh);
  plan.last_update = recording.updates;
  plan.saves = false;
  plan.checkpoint_every = 0;
  for (LanePlan& lane : plan.lanes) lane.replays = true;
  plan.flushes = recording.flushes;
  plan.ends = recording.ends;
  return plan;
}

}  // namespace leeway
