// The files of a run folder, read by every command that shows or repeats a run.
#include <map>

#include "../support/no_recorder.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/manifest.h"
#include "compare/results.h"
#include "compare/table.h"
#include "config/print.h"
#include "dashboard/metrics.h"
#include "drivers/sim/replay.h"
#include "events/event_log.h"
#include "report/layout.h"
#include "report/report_csv.h"
#include "report/report_page.h"
#include "report/run_follower.h"
#include "report/stage_table.h"
#include "report/tensorboard.h"
#include "report/timeline_svg.h"
#include "report/trace.h"
#include "report/verdict.h"
#include "report/work_log.h"
#include "run/device.h"
#include "run/drivers.h"
#include "run/merged_run.h"
#include "run/mesh_model.h"
#include "run/recording.h"
#include "run/run_folder.h"
#include "run/training_run.h"
#include "sample.h"
#include "target.h"

namespace leeway::fuzz {
namespace {

namespace fs = std::filesystem;

// A copy of the sample's run in which one file is replaced.
Path run_with(const Place& place, const char* name, std::string_view bytes) {
  const Path run = place.scratch / "run";
  fs::create_directories(run);
  for (const char* file : {"config.toml", "events.jsonl", "summary.json"}) {
    must_write(run / file, must_read(place.sample / "run" / file));
  }
  must_write(run / name, bytes);
  return run;
}

std::vector<std::string> lines(const Place& place) {
  const EventHistory history = must(read_events(place.sample / "run/events.jsonl"));
  std::map<std::string, std::string> found;  // one of each kind
  for (const Event& event : history.events) {
    found.emplace(event.kind() + event.text("kind").value_or(""), event.line());
  }
  std::vector<std::string> all;
  for (const auto& [kind, line] : found) all.push_back(line);
  return all;
}

void read_line(const Place&, std::string_view bytes) {
  const auto event = Event::parse(bytes);
  if (!sound(event)) return;
  const auto again = Event::parse(event->line());
  LEEWAY_CHECK(sound(again), "an event can be written and read again");
  sound(work_of(*event));
  sound(checked_work(*event));
}

std::vector<std::string> logs(const Place& place) {
  const std::string log = must_read(place.sample / "run/events.jsonl");
  const std::string resumed = "{\"event\":\"resumed\",\"update\":2,\"update_1\":3}\n";
  return {log, log + resumed + log};
}

void show(const Path& run) {
  auto data = read_run(run, limits_for(2));
  if (!sound(data)) return;
  metrics_text(*data);
  tensorboard_file(*data, 0);
  std::vector<RunData> both = {*data, *data};
  name_runs(both);
  verdict(both[0], both[1]);
  report_page(both, {.title = "x"});
  report_csv(both);
}

void draw(const Place& place, const Path& run) {
  const auto log = WorkLog::open(run);
  if (!sound(log)) return;
  auto survey = log->survey();
  if (!sound(survey)) return;
  const auto windows = choose_windows(*survey, {});
  if (!sound(windows)) return;
  std::vector<TimeSpan> spans;
  for (const Window& window : *windows) {
    describe(window);
    spans.push_back(window.span);
  }
  const auto history = log->history(*survey, spans);
  if (!sound(history)) return;
  const Drawing drawing = lay_out(*history, *windows, {.pixels = timeline_pixels(*history)});
  timeline_svg(drawing, "x", SvgUse::kFile);
  add_drawn(survey->rows, *history, spans);
  stage_text(survey->rows, {"busy, start", "busy, middle"});
  std::vector<WorkerId> workers;
  for (const auto& [worker, covered] : survey->workers) workers.push_back(worker);
  auto trace = TraceFile::create(place.scratch / "trace.json", workers);
  if (!sound(trace)) return;
  sound(log->each(
      {}, [&](const WorkRecord& record, std::optional<size_t>) { return trace->add(record); }));
  sound(trace->finish());
}

// As a comparison reads the run: it has one variant, and ran already.
void compare(const Place& place, const Path& run) {
  ComparisonPlan plan;
  plan.comparison.variants.push_back({.name = "only", .layer = {}});
  plan.comparison.baseline = "only";
  plan.comparison.target_loss = 3;
  plan.seeds = {1};
  plan.runs.push_back(
      {.variant = 0, .rate = 1, .seed = 1, .name = "only", .recipe = {}, .refused = {}});
  const Path folder = place.scratch / "compared";
  fs::create_directories(folder / "runs");
  std::error_code exists;
  fs::create_directory_symlink(run, folder / "runs/only", exists);
  const auto outcome = read_outcome(folder, plan.runs[0], 3);
  if (!outcome) return;
  const std::vector<RunOutcome> outcomes = {*outcome};
  sound(check_same_data(plan, outcomes));
  const ComparisonResults results = {
      .plan = plan, .outcomes = outcomes, .rows = comparison_rows(plan, outcomes), .command = "x"};
  comparison_markdown(results);
  results_json(results);
}

void read_everything(const Place& place, const Path& run) {
  sound(run_folder_state(run));
  sound(read_recording(run));
  show(run);
  draw(place, run);
  compare(place, run);
}

void read_log(const Place& place, std::string_view bytes) {
  read_everything(place, run_with(place, "events.jsonl", bytes));
}

std::vector<std::string> summaries(const Place& place) {
  return {must_read(place.sample / "run/summary.json")};
}
void read_summary(const Place& place, std::string_view bytes) {
  read_everything(place, run_with(place, "summary.json", bytes));
}

std::vector<std::string> configs(const Place& place) {
  return {must_read(place.sample / "run/config.toml")};
}
void read_config(const Place& place, std::string_view bytes) {
  show(run_with(place, "config.toml", bytes));
}

// As `leeway replay` does.
void replay_log(const Place& place, std::string_view bytes) {
  const auto recording = read_recording(run_with(place, "events.jsonl", bytes));
  if (!sound(recording)) return;
  const LoadedRecipe loaded = must(sample_recipe(place.sample, place.sample / "run/config.toml"));
  set_up_compute(1, Repeatable::kPrefer);
  const Dataset data = sample_data(place.sample, loaded.recipe);
  const MeshData mesh = {.train = data.train, .valid = nullptr, .vocabulary = data.vocabulary};
  const auto plan = plan_to_repeat(*recording, loaded.recipe, mesh);
  if (!sound(plan)) return;
  const Workers workers = make_workers(loaded.recipe, mesh, *plan);
  NoRecorder recorder;
  sound(sim::replay(workers, recording->work, recorder, {.coverage = recording->coverage}));
}

// The logs of two processes, with a form feed between them.
constexpr char kNextLog = '\f';

std::vector<std::string> logs_to_merge(const Place& place) {
  const std::string resumed = "{\"event\":\"resumed\",\"update\":2,\"run\":\"ab\"}\n";
  const std::string joined = "{\"event\":\"joined\",\"session\":2,\"run\":\"ab\",\"tick\":3}\n";
  const std::string other = "{\"event\":\"refused\"}\n{\"tick\": 9, \"event\":\"work\"}\n";
  return {must_read(place.sample / "run/events.jsonl") + resumed + kNextLog + joined + other};
}

void merge(const Place& place, std::string_view bytes) {
  const size_t end = std::min(bytes.find(kNextLog), bytes.size());
  const Path run = run_with(place, "events.jsonl", bytes.substr(0, end));
  const Path other = place.scratch / "other.jsonl";
  must_write(other, bytes.substr(std::min(end + 1, bytes.size())));
  const Path out = place.scratch / "merged";
  fs::remove_all(out);
  if (sound(merge_run({.run = run, .others = {other}, .out = out}))) read_everything(place, out);
}

std::vector<std::string> states_to_resume(const Place& place) {
  const Path newest = must(latest_checkpoint(place.sample / "run/checkpoints"));
  return {must_read(newest / "state.json")};
}

// As `leeway train --resume` does.
void resume(const Place& place, std::string_view bytes) {
  const Path run = run_with(place, "config.toml", must_read(place.sample / "run/config.toml"));
  const Path checkpoint = run / "checkpoints/update-00000002";
  static_cast<void>(remove_tree(run / "checkpoints"));
  fs::create_directories(checkpoint);
  for (const auto& entry :
       fs::directory_iterator(place.sample / "run" / "checkpoints/update-00000002")) {
    must_write(checkpoint / entry.path().filename(), must_read(entry.path()));
  }
  must_write(checkpoint / "state.json", bytes);
  Manifest manifest = must(read_manifest(checkpoint));
  for (ManifestEntry& entry : manifest.files) entry = must(describe_file(checkpoint, entry.name));
  must(write_manifest(checkpoint, manifest));
  const LoadedRecipe loaded = must(sample_recipe(place.sample, run / "config.toml"));
  sound(train_sample(place.sample, loaded, run, /*resume=*/true));
}

}  // namespace

std::vector<Target> log_targets() {
  return {{"event", lines, read_line},          {"log", logs, read_log},
          {"summary", summaries, read_summary}, {"run_config", configs, read_config},
          {"replay", logs, replay_log},         {"resume", states_to_resume, resume},
          {"merge", logs_to_merge, merge}};
}

}  // namespace leeway::fuzz
