// The contents of a run folder as plain values, for the page, the CSV files and TensorBoard.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "events/traffic.h"
#include "report/cores.h"
#include "report/participation.h"
#include "report/series.h"
#include "report/stage_table.h"

namespace leeway {

enum class Curve {
  kTrainLoss,
  kValidLoss,     // of the mean of the replicas
  kValidLossOwn,  // of one replica's own weights
  kGradientNorm,
  kTokensPerSecond,
  kConsensus,
  kDrift,
  kCorrection,
  kLag,
  kLearningRate,
};
inline constexpr int kCurves = 10;
std::string_view curve_word(Curve curve);  // "train_loss"

// How often each value occurred; values above kMax count as kMax.
class Histogram {
 public:
  static constexpr double kMax = 256;
  void add(double value) { ++counts_[value < kMax ? value : kMax]; }
  const std::map<double, int64_t>& counts() const { return counts_; }

 private:
  std::map<double, int64_t> counts_;
};

struct WorkerData {
  WorkerId worker;
  BusyTime busy = {};   // from a session's first piece of work to its last update
  int64_t updates = 0;  // over all sessions
  int64_t pieces = 0;
  int64_t bytes_sent = 0;
  Histogram delays = {};  // of backwards
};

// Diverged: an update had a loss or gradient that is not finite. Unfinished: in progress elsewhere
// or cut off. Running: this program is training it.
enum class RunState { kFinished, kStopped, kDiverged, kUnfinished, kRunning };
std::string_view state_word(RunState state);

// A run's row in the table of runs. From summary.json if the run has ended, otherwise from the log
// so far.
struct Headline {
  int64_t updates = 0;
  int64_t tokens = 0;
  std::optional<double> train_loss = {};
  std::optional<double> valid_loss = {};
  double seconds = 0;
  double tokens_per_second = 0;
  std::optional<int64_t> updates_wanted = {};  // run.updates
  std::optional<double> seconds_left = {};     // at the mean speed of this session; none: has ended
  std::optional<double> epochs = {};           // times the training text was read
  std::optional<double> learning_rate = {};    // of the last update
  std::optional<double> busy = {};             // mean over the stages
  std::array<int64_t, kPurposes> bytes = {};
  // Averaging, and copies for evaluations; none: one replica, or an older log.
  std::optional<int64_t> bytes_between_replicas = {};
  std::optional<int64_t> bytes_allreduce = {};  // what it would have sent; none: one replica
  std::optional<double> lag_mean = {};
  std::optional<double> consensus = {};
  std::string agreement = {};  // of a model that all replicas share; empty: they share none

  int64_t replicas_sent() const;                // to each other
  std::optional<double> traffic_share() const;  // of these bytes, relative to all-reduce
  std::optional<double> perplexity() const;     // of the validation text
};

// What a validation loss was measured on; two losses can be compared if this is equal. Empty or 0:
// unknown.
struct ValidationData {
  std::string text_hash = {};
  std::string tokenizer_hash = {};
  int64_t windows = 0;
};

struct RunData {
  std::string name;    // short, and unique on a page
  std::string folder;  // as the user wrote it
  std::string version = {};
  RunState state = RunState::kUnfinished;
  Headline headline = {};
  ValidationData validation = {};
  CoresUsed cores = {};
  int64_t train_tokens = 0;               // tokens of the training text; 0: unknown
  std::optional<double> written_at = {};  // when the log was last written, in seconds since 1970
  bool cut = false;                       // the log ends in an incomplete line, which is left out
  std::vector<std::pair<std::string, std::string>> config = {};  // "mesh.stages", "4"
  std::vector<Series> curves = std::vector<Series>(kCurves);
  std::vector<WorkerData> workers = {};          // ascending replica, then stage
  std::vector<ReplicaUpdates> members = {};      // of each replica; empty: all were always there
  Histogram lags = {};                           // of merges
  Histogram contributors = {};                   // of means
  std::string timeline = {};                     // SVG; empty: no work recorded
  std::vector<std::string> timeline_notes = {};  // what it leaves out
  std::vector<std::string> happened = {};        // resumed, diverged, ...
  std::vector<std::string> notes = {};           // what is missing, cut off or thinned

  const Series& curve(Curve which) const { return curves[static_cast<size_t>(which)]; }
  std::string setting(std::string_view key) const;  // "" if not set
};

// For a run that has not ended: who trains it, if anybody holds its folder, and when it last wrote
// something. `now`: in seconds since 1970.
std::string unfinished_note(const RunData& run, double now,
                            const std::optional<std::string>& holder);

// What the page's script reads; docs/report.md describes it.
nlohmann::ordered_json to_json(const RunData& run);
nlohmann::ordered_json to_json(const Headline& headline);

}  // namespace leeway
