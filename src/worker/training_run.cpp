#include "worker/training_run.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/atomic_folder.h"
#include "base/hash.h"
#include "base/process.h"
#include "checkpoint/checkpoint_folder.h"
#include "events/event_log.h"
#include "worker/recipe_parts.h"
#include "worker/saved_state.h"
#include "worker/summary.h"

namespace leeway {
namespace {

constexpr size_t kRecentLosses = 20;

// The state of one sitting, and the steps that the loop in train() is told in.
class TrainingRun {
 public:
  TrainingRun(const TrainingRequest& request, const Dataset& data, const Clock& clock,
              const TrainingObserver& observer, EventLog log)
      : request_(request),
        recipe_(request.recipe),
        data_(data),
        clock_(clock),
        observer_(observer),
        log_(std::move(log)),
        trainer_(recipe_, data.train, data.vocabulary),
        start_(clock.now()) {
    // A foreign token file does not know its tokenizer; the recipe may.
    counters_.tokenizer_hash =
        data.tokenizer ? data.tokenizer->hash() : data.train.info().tokenizer_hash;
    counters_.data_hash = data.train.info().content_hash;
  }

  void begin();
  Status resume();
  Status run();
  Result<TrainingSummary> end();

 private:
  Path checkpoints() const { return request_.folder / "checkpoints"; }
  bool done() const { return counters_.update >= recipe_.run.updates; }
  bool due(int64_t every) const { return every > 0 && counters_.update % every == 0; }
  double seconds_now() const { return seconds_before_ + (clock_.now() - start_).seconds(); }

  Status update();
  void evaluate();
  Status save();
  Error diverged(const UpdateReport& report);
  void drop_bad_checkpoint();
  Result<SavedRun> load_newest();
  bool stop_wanted() const { return observer_.stop_wanted && observer_.stop_wanted(); }
  void log(const Event& event);
  void flush_log();
  void warn(const std::string& message) const {
    if (observer_.warned) observer_.warned(message);
  }

  const TrainingRequest& request_;
  const Recipe& recipe_;
  const Dataset& data_;
  const Clock& clock_;
  const TrainingObserver& observer_;
  EventLog log_;
  Trainer trainer_;
  RunCounters counters_;
  Nanos start_;
  double seconds_before_ = 0;
  int64_t saved_update_ = -1;    // of this sitting's last checkpoint
  int64_t resumed_update_ = -1;  // of the checkpoint that this sitting began with
  int64_t evaluated_update_ = -1;
  std::optional<double> valid_loss_;
  Path checkpoint_;
};

// A full disk costs the diary, not the run: said once, and the checkpoint will tell if it stays.
void TrainingRun::log(const Event& event) {
  if (const Status status = log_.write(event); !status) warn(status.error().message);
}

void TrainingRun::flush_log() {
  if (const Status status = log_.flush(); !status) warn(status.error().message);
}

void TrainingRun::begin() {
  log(Event("started")
          .add("version", LEEWAY_VERSION)
          .add("parameters", trainer_.parameters())
          .add("train_tokens", data_.train.info().count)
          .add("data_hash", hash_hex(counters_.data_hash))
          .add("tokenizer_hash", hash_hex(counters_.tokenizer_hash)));
}

// The newest checkpoint that is sound; a damaged one costs the updates since the one before it.
Result<SavedRun> TrainingRun::load_newest() {
  const std::vector<Path> all = named_checkpoints(checkpoints());
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    Result<SavedRun> saved = load_run(*it, /*with_optimizer=*/true);
    checkpoint_ = *it;
    if (saved) return saved;
    warn(saved.error().message);
  }
  return Error{checkpoints().string() + " holds no sound checkpoint; start again with --fresh"};
}

Status TrainingRun::resume() {
  LEEWAY_ASSIGN(SavedRun saved, load_newest());
  if (saved.counters.data_hash != counters_.data_hash) {
    return usage_error(fmt::format(
        "the training data is not what {} was trained on so far; bring back that data, or start a "
        "new run with another --out",
        request_.folder.string()));
  }
  if (saved.weights.numel() != trainer_.parameters()) {
    return usage_error(fmt::format("{} has {} parameters and this recipe makes {}; use its recipe",
                                   checkpoint_.string(), saved.weights.numel(),
                                   trainer_.parameters()));
  }
  const size_t buffers = trainer_.optimizer_state().buffers.size();
  if (saved.optimizer.buffers.size() != buffers) {
    return usage_error(
        fmt::format("{} holds {} optimizer buffers and this recipe's optimizer has "
                    "{}; use its recipe",
                    checkpoint_.string(), saved.optimizer.buffers.size(), buffers));
  }
  LEEWAY_TRY(trainer_.restore(saved.weights, saved.optimizer));
  counters_ = std::move(saved.counters);
  seconds_before_ = counters_.seconds;
  resumed_update_ = counters_.update;
  log(Event("resumed").add("update", counters_.update).add("checkpoint", checkpoint_.string()));
  for (const std::string& change : request_.changes) {
    log(Event("changed").add("update", counters_.update).add("change", change));
  }
  return {};
}

Status TrainingRun::run() {
  const int64_t goal =
      request_.stop_at > 0 ? std::min(request_.stop_at, recipe_.run.updates) : recipe_.run.updates;
  while (counters_.update < goal) {
    LEEWAY_TRY(update());
    if (due(recipe_.run.evaluate_every)) evaluate();
    if (due(recipe_.run.checkpoint_every)) LEEWAY_TRY(save());
    if (stop_wanted()) break;
  }
  if (done() && evaluated_update_ != counters_.update) evaluate();
  const bool on_disk = saved_update_ == counters_.update || resumed_update_ == counters_.update;
  if (!on_disk) LEEWAY_TRY(save());
  return {};
}

Status TrainingRun::update() {
  const Nanos begin = clock_.now();
  const UpdateReport report = trainer_.next_update();
  const double seconds = (clock_.now() - begin).seconds();
  if (!report.applied) return diverged(report);
  counters_.update = report.update;
  counters_.seconds_updating += seconds;
  counters_.recent_losses.push_back(report.loss);
  if (counters_.recent_losses.size() > kRecentLosses) counters_.recent_losses.pop_front();
  log(Event("update")
          .add("update", report.update)
          .add("loss", report.loss)
          .add("gradient_norm", report.gradient_norm)
          .add("rate_factor", report.rate_factor)
          .add("tokens", trainer_.tokens_done())
          .add("seconds", seconds_now()));
  if (observer_.updated) {
    const auto tokens = static_cast<double>(recipe_.data.batch * recipe_.model.context);
    observer_.updated(report, tokens / seconds);
  }
  return {};
}

void TrainingRun::evaluate() {
  evaluated_update_ = counters_.update;
  if (!data_.valid) return;
  const auto evaluation =
      trainer_.validate(*data_.valid, [this](int64_t, int64_t) { return !stop_wanted(); });
  if (!evaluation) return;
  valid_loss_ = evaluation->loss;
  log(Event("evaluated")
          .add("update", counters_.update)
          .add("valid_loss", evaluation->loss)
          .add("windows", evaluation->windows)
          .add("seconds", seconds_now()));
  if (observer_.evaluated) observer_.evaluated({counters_.update, evaluation->loss});
}

Status TrainingRun::save() {
  counters_.seconds = seconds_now();
  LEEWAY_ASSIGN(checkpoint_, save_run(checkpoints(),
                                      {.counters = counters_,
                                       .shape = trainer_.shape(),
                                       .weights = trainer_.weights(),
                                       .optimizer = trainer_.optimizer_state()},
                                      recipe_.run.keep));
  saved_update_ = counters_.update;
  log(Event("saved").add("update", counters_.update).add("checkpoint", checkpoint_.string()));
  flush_log();
  if (observer_.saved) observer_.saved(checkpoint_);
  return {};
}

Error TrainingRun::diverged(const UpdateReport& report) {
  log(Event("diverged")
          .add("update", report.update)
          .add("loss", report.loss)
          .add("gradient_norm", report.gradient_norm));
  flush_log();
  drop_bad_checkpoint();
  const auto kept = list_checkpoints(checkpoints());
  const std::string way_out =
      kept.empty()
          ? std::string("there is no checkpoint yet: start again with --fresh and")
          : fmt::format("the last good checkpoint is {}: --resume and", kept.back().string());
  return Error{fmt::format(
      "update {} was not made: its loss is {:.4g} and its gradient norm {:.4g}; {} a lower "
      "optimizer.rate or optimizer.matrix_rate, or a longer optimizer.warmup",
      report.update + 1, report.loss, std::abs(report.gradient_norm), way_out)};
}

// One that was saved a moment ago, before anybody had seen what its weights do, would only bring
// --resume back to the same place. It goes if there is an earlier one to go back to.
void TrainingRun::drop_bad_checkpoint() {
  if (saved_update_ != counters_.update || list_checkpoints(checkpoints()).size() < 2) return;
  if (const Status status = remove_folder(checkpoint_); !status) warn(status.error().message);
}

Result<TrainingSummary> TrainingRun::end() {
  counters_.seconds = seconds_now();
  const at::Tensor weights = trainer_.weights().cpu();
  std::optional<double> bits;
  if (valid_loss_) bits = bits_per_byte(*valid_loss_, data_.valid->info());
  const std::string json =
      summary_json({.recipe = recipe_,
                    .counters = counters_,
                    .parameters = trainer_.parameters(),
                    .tokens = trainer_.tokens_done(),
                    .valid_loss = valid_loss_,
                    .valid_bits_per_byte = bits,
                    .weights_hash = hash_bytes({static_cast<const std::byte*>(weights.data_ptr()),
                                                static_cast<size_t>(weights.nbytes())}),
                    .peak_rss_bytes = peak_rss_bytes()});
  log(Event("ended").add("update", counters_.update).add("finished", done()));
  flush_log();
  LEEWAY_TRY(write_atomically(request_.folder / "summary.json", json));
  return TrainingSummary{json, done(), counters_.update};
}

}  // namespace

Result<RunFolderState> run_folder_state(const Path& folder) {
  std::error_code code;
  const bool began = std::filesystem::exists(folder / "config.toml", code);
  // Part of the way being a file is for make_folder() to say.
  if (code && code != std::errc::not_a_directory) {
    return file_error("look into", folder, code.value());
  }
  if (!began) return RunFolderState::kNone;
  const Result<std::string> text = read_text(folder / "summary.json");
  if (!text) return RunFolderState::kUnfinished;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const bool finished = json.is_object() && json.value("finished", false);
  return finished ? RunFolderState::kFinished : RunFolderState::kUnfinished;
}

Result<TrainingSummary> train(const TrainingRequest& request, const Dataset& data,
                              const Clock& clock, const TrainingObserver& observer) {
  LEEWAY_TRY(make_folder(request.folder));
  if (!request.resume && data.tokenizer) {
    LEEWAY_TRY(make_folder(request.folder / "tokenizer"));
    LEEWAY_TRY(data.tokenizer->save(request.folder / "tokenizer"));
  }
  LEEWAY_ASSIGN(EventLog log, EventLog::open(request.folder / "events.jsonl", request.resume));
  TrainingRun run(request, data, clock, observer, std::move(log));
  if (request.resume) {
    LEEWAY_TRY(run.resume());
  } else {
    run.begin();
  }
  // Only now is it sure that this sitting takes place. Until it ends, the run is unfinished.
  LEEWAY_TRY(write_atomically(request.folder / "config.toml", request.recipe_text));
  std::error_code ignored;  // there may be no summary yet
  std::filesystem::remove(request.folder / "summary.json", ignored);
  LEEWAY_TRY(run.run());
  return run.end();
}

}  // namespace leeway
