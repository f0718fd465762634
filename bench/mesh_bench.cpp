// What the mesh adds to the arithmetic; the two sides take turns in one process:
//
//   mesh_bench loop RECIPE FOLDER [KEY=VALUE...]   the run against a plain loop over its one stage
//   mesh_bench log RECIPE FOLDER [KEY=VALUE...]    the run with its event log against one without
//   mesh_bench saves RECIPE FOLDER [KEY=VALUE...]  the run with a disk that takes a second for
//                                                  every state against one that takes no time, up
//                                                  to the last update
//   mesh_bench joins RECIPE FOLDER [KEY=VALUE...]  replica 0 of two, while the workers of replica 1
//                                                  load its state all the time, against the same
//                                                  while they load nothing, up to the last update
//
// FOLDER is for the logs. Prints one JSON object: tokens per second of both sides (medians),
// "ratio" (the median over the rounds), the log's "bytes_per_update", and "log_share", its share of
// the run's processor time.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../tests/support/no_recorder.h"
#include "../tests/support/slow_store.h"
#include "base/check.h"
#include "base/process.h"
#include "compute/batches.h"
#include "config/load.h"
#include "data/dataset.h"
#include "drivers/threads/wall_clock.h"
#include "joiner.h"
#include "kernels/clip.h"
#include "kernels/gate.h"
#include "kernels/norms.h"
#include "measure.h"
#include "recipe/stage_options.h"
#include "run/device.h"
#include "run/drivers.h"
#include "run/mesh_model.h"
#include "run/recorder.h"

namespace leeway {
namespace {

constexpr int kRounds = 15;  // odd, so that the median is one of the measurements
constexpr int kShareRounds = 5;
constexpr int kSaveRounds = 5;
constexpr int kJoinRounds = 5;

struct Job {
  const Recipe& recipe;
  const Dataset& data;
  Path folder;
};

// One side of one round.
struct Measured {
  double seconds = 0;
  double recorder_share = 0;  // of the processor time; only with Keeping::kTimedLog
  at::Tensor weights;
};

// Threads that share a core get preempted at any point, so only time on the core counts. Reading
// these clocks is a system call that disturbs scheduling and makes four stages on two cores a few
// per cent slower: do not use them in runs timed by the wall clock.
double processor_seconds(clockid_t clock) {
  timespec now = {};
  LEEWAY_CHECK(::clock_gettime(clock, &now) == 0, "Linux has these clocks");
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The run as one would write it for a single stage, with nothing to wait for.
void plain_loop(const Job& job, Stage& stage) {
  const Recipe& recipe = job.recipe;
  const int64_t count = recipe.pipeline.update_every;
  const int64_t context = recipe.model.context;
  const RateScheduleOptions schedule = rate_schedule_options(recipe);
  const SamplerOptions sampler = {
      .seed = static_cast<uint64_t>(recipe.run.seed),
      .window_count = window_count_of(job.data.train.info().count, context),
      .replicas = 1,
      .microbatch = recipe.data.batch / count};
  const ParameterNorms norms(stage.model().layout(), at::kCPU);
  for (int64_t update = 0; update < recipe.run.updates; ++update) {
    double loss = 0;
    for (MicrobatchId m = {update * count}; m.value < (update + 1) * count; ++m.value) {
      const Batch batch = read_microbatch(job.data.train, context, sampler, m, {0}, at::kCPU);
      const double scale = 1.0 / static_cast<double>(count);
      stage.forward_to_head(m, {}, batch.inputs, batch.targets, scale);
      loss += stage.backward_from_loss(m).loss.item<double>();
    }
    const double norm = sum_in_order({norms.squares(stage.gradients())}).item<double>();
    LEEWAY_CHECK(std::isfinite(loss) && std::isfinite(norm), "the recipe does not diverge");
    stage.update(rate_factor(schedule, update), clip_scale(norm, recipe.optimizer.clip));
  }
}

Measured run_loop(const Job& job) {
  Stage stage(stage_options(job.recipe, job.data.vocabulary).front());
  Measured measured;
  measured.seconds = seconds_of([&] { plain_loop(job, stage); });
  measured.weights = stage.weights();
  return measured;
}

class TimedRecorder final : public Recorder {
 public:
  explicit TimedRecorder(RunRecorder& recorder) : recorder_(recorder) {}
  void worked(const WorkRecord& record) override {
    timed([&] { recorder_.worked(record); });
  }
  void tallied(WorkerId worker, const WorkTally& tally) override {
    timed([&] { recorder_.tallied(worker, tally); });
  }
  void updated(const StageUpdate& update) override {
    timed([&] { recorder_.updated(update); });
  }
  void predicted(const Prediction& prediction) override {
    timed([&] { recorder_.predicted(prediction); });
  }
  void evaluated(const StageEvaluation& evaluation) override { recorder_.evaluated(evaluation); }
  void saved(const ShardSaved& saved) override { recorder_.saved(saved); }

  void end() {
    timed([&] { recorder_.flush_log(); });
  }
  double seconds() const { return seconds_; }

 private:
  template <class Function>
  void timed(const Function& function) {
    const double begin = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
    function();
    seconds_ += processor_seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
  }

  RunRecorder& recorder_;
  double seconds_ = 0;  // one caller at a time, as with all recorders
};

MeshData without_validation(const Dataset& data) {
  return {.train = data.train, .valid = nullptr, .vocabulary = data.vocabulary};
}

enum class Keeping { kLog, kTimedLog, kNothing };

Measured run_mesh(const Job& job, Keeping keeping) {
  const MeshData data = without_validation(job.data);
  RunPlan plan = make_plan(job.recipe, data);
  plan.saves = false;
  const Workers workers = make_workers(job.recipe, data, plan);
  const auto driver = make_driver(job.recipe, job.data.vocabulary);
  auto log = EventLog::open(job.folder / "events.jsonl", /*append=*/false);
  LEEWAY_CHECK(log.ok(), "the folder is writable");
  const auto held = HeldFolder::hold(job.folder);
  LEEWAY_CHECK(held.ok(), "nobody else uses the folder");
  const TrainingObserver no_observer;
  RunRecorder run_recorder({.recipe = job.recipe,
                            .plan = plan,
                            .shape = workers.front()->compute()->stage().model().shape(),
                            .folder = *held,
                            .clock = driver->clock(),
                            .observer = no_observer},
                           *std::move(log), {}, NewestEvaluations());
  TimedRecorder timed_recorder(run_recorder);
  NoRecorder no_recorder;
  Recorder* recorder = &run_recorder;
  if (keeping == Keeping::kTimedLog) recorder = &timed_recorder;
  if (keeping == Keeping::kNothing) recorder = &no_recorder;
  Measured measured;
  const double before = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
  measured.seconds = seconds_of([&] {
    LEEWAY_CHECK(driver->run(workers, *recorder).ok(), "threads have no errors of their own");
    timed_recorder.end();
  });
  const double spent = processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
  LEEWAY_CHECK(!run_recorder.failure(), "the recipe does not diverge");
  measured.recorder_share = timed_recorder.seconds() / spent;
  measured.weights = weights_of(workers);
  return measured;
}

// Notes when the last update is made: after that a run waits for its disk.
class LastUpdateRecorder final : public Recorder {
 public:
  LastUpdateRecorder(int64_t updates, const Clock& clock)
      : updates_(updates), clock_(clock), begin_(clock.now()) {}
  void worked(const WorkRecord&) override {}
  void predicted(const Prediction&) override {}
  void evaluated(const StageEvaluation&) override {}
  void updated(const StageUpdate& update) override {
    if (update.update == updates_) seconds_ = (clock_.now() - begin_).seconds();
  }
  double seconds() const { return seconds_; }

 private:
  int64_t updates_;
  const Clock& clock_;
  Nanos begin_;
  double seconds_ = 0;
};

Measured run_saving(const Job& job, Nanos save_time) {
  const MeshData data = without_validation(job.data);
  const RunPlan plan = make_plan(job.recipe, data);
  const Workers workers = make_workers(job.recipe, data, plan);
  const auto driver = make_driver(job.recipe, job.data.vocabulary);
  LastUpdateRecorder recorder(plan.last_update, driver->clock());
  SlowStore store(save_time);
  LEEWAY_CHECK(driver->run(workers, recorder, &store).ok(), "threads have no errors of their own");
  return {.seconds = recorder.seconds(), .weights = weights_of(workers)};
}

Measured run_beside_joiner(const Job& job, bool loads) {
  const MeshData data = without_validation(job.data);
  RunPlan plan = make_plan(job.recipe, data);
  plan.saves = false;
  const Workers workers = make_workers(job.recipe, data, plan);
  std::vector<Worker*> here = pointers_to(workers);
  here.resize(static_cast<size_t>(plan.shape.stages));  // replica 0
  const threads::WallClock clock;
  LastUpdateRecorder recorder(plan.last_update, clock);
  Joiner joiner(plan, loads);
  Process process({.plan = plan,
                   .workers = here,
                   .journal = recorder,
                   .recorder = &recorder,
                   .clock = clock,
                   .threads_per_worker = threads_per_worker(job.recipe),
                   .router = [&](Message message) { joiner.take(std::move(message)); }});
  joiner.begin(process);
  process.run();
  joiner.end();
  LEEWAY_CHECK((joiner.parts() > 0) == loads, "it has loaded");
  return {.seconds = recorder.seconds(), .weights = weights_of(workers, ReplicaSet::first(1))};
}

struct Sides {
  std::vector<double> ours, theirs, ratios;
};

using Side = std::function<Measured()>;

// The sides alternate in going first. The first round is a warm-up and is not counted.
Sides by_turns(const Job& job, const Side& ours, const Side& theirs, int rounds = kRounds) {
  const auto tokens = static_cast<double>(job.recipe.run.updates * job.recipe.data.batch *
                                          job.recipe.model.context);
  Sides sides;
  for (int round = 0; round <= rounds; ++round) {
    Measured a, b;
    if (round % 2 == 1) a = ours();
    b = theirs();
    if (round % 2 == 0) a = ours();
    LEEWAY_CHECK(at::equal(a.weights, b.weights), "both sides make the same weights");
    if (round == 0) continue;
    sides.ours.push_back(tokens / a.seconds);
    sides.theirs.push_back(tokens / b.seconds);
    sides.ratios.push_back(b.seconds / a.seconds);
  }
  return sides;
}

void print_sides(const Sides& sides) {
  fmt::print(
      "{{\"tokens_per_second\": {:.6g}, \"reference_tokens_per_second\": {:.6g}, \"ratio\": "
      "{:.4f}, \"peak_rss_bytes\": {}}}\n",
      median(sides.ours), median(sides.theirs), median(sides.ratios), peak_rss_bytes());
}

Status measure(const std::string& what, const Path& file, const Path& folder,
               const std::vector<std::string>& sets) {
  LEEWAY_ASSIGN(const LoadedRecipe loaded, load_recipe(file, sets));
  const Recipe& recipe = loaded.recipe;
  const bool loop = what == "loop";
  if (loop && recipe.mesh.stages != 1) return usage_error("loop needs mesh.stages = 1");
  LEEWAY_TRY(make_folder(folder));
  LEEWAY_ASSIGN(const Dataset data, open_dataset({.train = recipe.data.train}, folder / "text",
                                                 [](uint64_t, uint64_t) { return true; }));
  set_up_compute(threads_per_worker(recipe));
  keep_freed_memory();
  const Job job = {.recipe = recipe, .data = data, .folder = folder};
  const Side mesh = [&] { return run_mesh(job, Keeping::kLog); };
  const Side without = [&] { return run_mesh(job, Keeping::kNothing); };
  const Side plain = [&] { return run_loop(job); };
  if (what == "saves") {
    print_sides(by_turns(
        job, [&] { return run_saving(job, Nanos{1'000'000'000}); },
        [&] { return run_saving(job, {}); }, kSaveRounds));
    return {};
  }
  if (what == "joins") {
    if (recipe.mesh.replicas != 2) return usage_error("joins needs mesh.replicas = 2");
    print_sides(by_turns(
        job, [&] { return run_beside_joiner(job, true); },
        [&] { return run_beside_joiner(job, false); }, kJoinRounds));
    return {};
  }
  const Sides sides = by_turns(job, mesh, loop ? plain : without);
  std::vector<double> shares;
  for (int round = 0; round < kShareRounds; ++round) {
    shares.push_back(run_mesh(job, Keeping::kTimedLog).recorder_share);
  }
  const auto bytes = static_cast<double>(std::filesystem::file_size(folder / "events.jsonl"));
  fmt::print(
      "{{\"tokens_per_second\": {:.6g}, \"reference_tokens_per_second\": {:.6g}, \"ratio\": "
      "{:.4f}, \"log_share\": {:.6f}, \"bytes_per_update\": {:.0f}, \"peak_rss_bytes\": {}}}\n",
      median(sides.ours), median(sides.theirs), median(sides.ratios), median(shares),
      bytes / static_cast<double>(recipe.run.updates), peak_rss_bytes());
  return {};
}

}  // namespace
}  // namespace leeway

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  const std::vector<std::string> modes = {"loop", "log", "saves", "joins"};
  const bool known = count >= 4 && std::ranges::find(modes, arguments[0]) != modes.end();
  if (!known) {
    return fmt::print(stderr, "mesh_bench loop|log|saves|joins RECIPE FOLDER [KEY=VALUE...]\n"), 2;
  }
  const std::vector<std::string> sets(arguments.begin() + 3, arguments.end());
  const auto status = leeway::measure(arguments[0], arguments[1], arguments[2], sets);
  if (!status.ok()) return fmt::print(stderr, "{}\n", status.error().message), 1;
  return 0;
}
