#include "report/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace leeway {
namespace {

using Json = nlohmann::json;

std::optional<double> number(const Json& json, const std::string& key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

int64_t whole(const Json& json, const std::string& key, int64_t otherwise) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

std::optional<double> mean_busy(const Json& json) {
  const auto stages = json.find("stages");
  if (stages == json.end() || !stages->is_array() || stages->empty()) return std::nullopt;
  double sum = 0;
  for (const Json& stage : *stages) {
    const auto busy = stage.is_object() ? number(stage, "busy") : std::nullopt;
    if (!busy) return std::nullopt;
    sum += *busy;
  }
  return sum / static_cast<double>(stages->size());
}

void take_headline(Headline& headline, const Json& json) {
  headline.updates = whole(json, "updates", headline.updates);
  headline.tokens = whole(json, "tokens", headline.tokens);
  headline.train_loss = number(json, "train_loss");
  headline.valid_loss = number(json, "valid_loss");
  headline.seconds = number(json, "seconds").value_or(headline.seconds);
  headline.tokens_per_second =
      number(json, "tokens_per_second").value_or(headline.tokens_per_second);
  if (const auto busy = mean_busy(json)) headline.busy = busy;
  for (int i = 0; i < kPurposes; ++i) {
    int64_t& bytes = headline.bytes[static_cast<size_t>(i)];
    bytes = whole(json, fmt::format("bytes_{}", purpose_word(static_cast<Purpose>(i))), bytes);
  }
  const int64_t between = whole(json, "bytes_total_between_replicas", -1);
  if (between >= 0) headline.bytes_between_replicas = between;
  const int64_t allreduce = whole(json, "bytes_allreduce", 0);
  if (allreduce > 0) headline.bytes_allreduce = allreduce;
  headline.lag_mean = number(json, "lag_mean");
  headline.consensus = number(json, "consensus");
  const auto agreement = json.find("agreement");
  if (agreement != json.end() && agreement->is_string()) headline.agreement = *agreement;
}

}  // namespace

void add_summary(RunData& data, const Path& folder, bool has_log) {
  const Path path = folder / "summary.json";
  std::error_code code;
  const bool there = std::filesystem::exists(path, code);
  if (there && (!has_log || data.state != RunState::kUnfinished)) {
    const auto text = read_text(path);
    const Json json = text.ok() ? Json::parse(*text, nullptr, false) : Json();
    if (json.is_object()) {
      take_headline(data.headline, json);
      const auto version = json.find("version");
      if (version != json.end() && version->is_string()) data.version = *version;
      const auto finished = json.find("finished");
      const bool ended = finished != json.end() && finished->is_boolean() && finished->get<bool>();
      if (!has_log) data.state = ended ? RunState::kFinished : RunState::kStopped;
    } else {
      data.notes.push_back("summary.json cannot be read; the numbers come from events.jsonl");
    }
  }
  if (!data.version.empty() && !data.version.starts_with(LEEWAY_VERSION)) {
    data.notes.push_back(
        fmt::format("the run was made by version {} and is read by version {}: values that were "
                    "renamed in between are missing here",
                    data.version, LEEWAY_VERSION));
  }
}

void estimate_allreduce(RunData& data, int64_t parameters, int64_t shift) {
  const std::string text = data.setting("mesh.replicas");
  int64_t replicas = 0;
  std::from_chars(text.data(), text.data() + text.size(), replicas);
  if ((replicas < 2 && shift == 0) || replicas < 1 || parameters <= 0) return;
  const int64_t common = data.headline.updates;
  std::map<ReplicaId, int64_t> made;  // a replica's slowest stage counts
  for (const WorkerData& worker : data.workers) {
    int64_t& updates = made.try_emplace(worker.worker.replica, worker.updates).first->second;
    updates = std::min(updates, worker.updates);
  }
  int64_t all = replicas * common;
  for (const auto& [replica, updates] : made) all += std::max<int64_t>(0, updates - common);
  // Same formula as the worker's usual_bytes(), which the summary will use.
  data.headline.bytes_allreduce =
      shift + static_cast<int64_t>(8.0 * static_cast<double>(parameters) *
                                   static_cast<double>(replicas - 1) * static_cast<double>(all) /
                                   static_cast<double>(replicas));
}

}  // namespace leeway
