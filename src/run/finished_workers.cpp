#include "run/finished_workers.h"

#include <algorithm>
#include <map>

#include "recipe/lane_options.h"

namespace leeway {

std::vector<StageSummary> stage_summaries(const RunRecorder& recorder) {
  std::vector<StageSummary> stages;
  for (const auto& [worker, finished] : recorder.finished()) {
    const auto at = static_cast<size_t>(worker.stage.value);
    if (at == stages.size()) {  // of the first replica
      stages.push_back({.statistics = recorder.statistics(worker.stage),
                        .parameters = finished.parameters,
                        .versions_peak = 0,
                        .version_bytes = finished.version_bytes});
    }
    if (at >= stages.size()) continue;
    stages[at].versions_peak = std::max(stages[at].versions_peak, finished.versions_peak);
  }
  return stages;
}

RoundCounts round_counts(const RunRecorder& recorder) {
  RoundCounts all;
  for (const auto& [worker, finished] : recorder.finished()) {
    all.late += finished.rounds.late;
    all.missing += finished.rounds.missing;
    all.missed += finished.rounds.missed;
    all.dropped += finished.rounds.dropped;
    all.differed += finished.rounds.differed;
    all.written_off += finished.rounds.written_off;
  }
  return all;
}

std::optional<std::string> agreement(const RunRecorder& recorder) {
  std::map<StageId, const Finished*> first;
  bool shared = false, comparable = true, same = true;
  for (const auto& [worker, finished] : recorder.finished()) {
    if (!recorder.table().has(worker.replica) || finished.model_hash == 0) continue;
    const auto [found, is_first] = first.try_emplace(worker.stage, &finished);
    shared = shared || !is_first;
    comparable = comparable && found->second->model_at == finished.model_at;
    same = same && found->second->model_hash == finished.model_hash;
  }
  if (!shared) return std::nullopt;
  if (!same) return comparable ? "different" : "unknown";
  return round_counts(recorder).differed == 0 ? "identical" : "restored";
}

// Replicas that were stopped may have made different numbers of updates.
double usual_bytes(const Recipe& recipe, int64_t parameters, const RunRecorder& recorder) {
  int64_t updates = 0;
  for (const auto& [worker, finished] : recorder.finished()) {
    if (worker.stage.value == 0) updates += finished.updates;
  }
  const int64_t replicas = recipe.mesh.replicas;
  return allreduce_bytes(parameters, replicas, updates) / static_cast<double>(replicas) +
         static_cast<double>(recorder.counters().shifted_allreduce_bytes);
}

}  // namespace leeway
