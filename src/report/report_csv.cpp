#include "report/report_csv.h"

#include <fmt/format.h>

#include <algorithm>

namespace leeway {
namespace {

std::string or_empty(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string runs_csv(const std::vector<RunData>& runs) {
  std::string text = "run,folder,state";
  bool first = true;
  for (const RunData& run : runs) {
    const auto json = to_json(run.headline);
    for (const auto& [key, value] : json.items()) {
      if (first) text += fmt::format(",{}", key);
    }
    text += fmt::format("{}{},{},{}", "\n", csv_cell(run.name), csv_cell(run.folder),
                        state_word(run.state));
    for (const auto& [key, value] : json.items()) {
      text += fmt::format(",{}", value.is_null() ? "" : value.dump());
    }
    first = false;
  }
  return text + "\n";
}

std::string curves_csv(const std::vector<RunData>& runs) {
  std::string text = "run,curve,update,tokens,seconds,bytes_averaging,bytes,value\n";
  for (const RunData& run : runs) {
    for (size_t i = 0; i < run.curves.size(); ++i) {
      const auto word = curve_word(static_cast<Curve>(i));
      for (const Point& point : run.curves[i].points()) {
        const Standing& at = point.at;
        text += fmt::format("{},{},{},{},{},{},{},{}\n", csv_cell(run.name), word, at.update,
                            at.tokens, at.seconds, at.bytes_averaging, at.bytes, point.value);
      }
    }
  }
  return text;
}

std::string workers_csv(const std::vector<RunData>& runs) {
  std::string text = "run,replica,stage,busy,pieces,bytes_sent\n";
  for (const RunData& run : runs) {
    for (const WorkerData& worker : run.workers) {
      text += fmt::format("{},{},{},{},{},{}\n", csv_cell(run.name), worker.worker.replica.value,
                          worker.worker.stage.value, or_empty(worker.busy.share()), worker.pieces,
                          worker.bytes_sent);
    }
  }
  return text;
}

std::string histograms_csv(const std::vector<RunData>& runs) {
  std::string text = "run,what,replica,stage,value,count\n";
  for (const RunData& run : runs) {
    for (const WorkerData& worker : run.workers) {
      for (const auto& [delay, count] : worker.delays.counts()) {
        text += fmt::format("{},delay,{},{},{},{}\n", csv_cell(run.name),
                            worker.worker.replica.value, worker.worker.stage.value, delay, count);
      }
    }
    for (const auto& [lag, count] : run.lags.counts()) {
      text += fmt::format("{},lag,,,{},{}\n", csv_cell(run.name), lag, count);
    }
    for (const auto& [replicas, count] : run.contributors.counts()) {
      text += fmt::format("{},contributors,,,{},{}\n", csv_cell(run.name), replicas, count);
    }
  }
  return text;
}

std::string traffic_csv(const std::vector<RunData>& runs) {
  std::string text = "run,purpose,bytes\n";
  for (const RunData& run : runs) {
    for (int i = 0; i < kPurposes; ++i) {
      text += fmt::format("{},{},{}\n", csv_cell(run.name), purpose_word(static_cast<Purpose>(i)),
                          run.headline.bytes[static_cast<size_t>(i)]);
    }
    if (run.headline.bytes_allreduce) {
      text += fmt::format("{},allreduce (not sent),{}\n", csv_cell(run.name),
                          *run.headline.bytes_allreduce);
    }
  }
  return text;
}

std::string configuration_csv(const std::vector<RunData>& runs) {
  std::vector<std::string> keys;  // in order of first appearance
  std::string text = "key";
  for (const RunData& run : runs) {
    text += fmt::format(",{}", csv_cell(run.name));
    for (const auto& [key, value] : run.config) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  text += "\n";
  for (const std::string& key : keys) {
    text += csv_cell(key);
    for (const RunData& run : runs) text += fmt::format(",{}", csv_cell(run.setting(key)));
    text += "\n";
  }
  return text;
}

}  // namespace

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + '"';
}

std::vector<std::pair<std::string, std::string>> report_csv(const std::vector<RunData>& runs) {
  return {{"runs.csv", runs_csv(runs)},       {"curves.csv", curves_csv(runs)},
          {"workers.csv", workers_csv(runs)}, {"histograms.csv", histograms_csv(runs)},
          {"traffic.csv", traffic_csv(runs)}, {"configuration.csv", configuration_csv(runs)}};
}

}  // namespace leeway
