#include "cli/training.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/human.h"
#include "base/names.h"
#include "cli/print_result.h"
#include "cli/recipe_data.h"
#include "cli/validators.h"
#include "run/train.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/say.h"
#include "terminal/signal_watch.h"

namespace leeway::cli {
namespace {

// What the user sees of a run: text that is read, then training.
class Display {
 public:
  Display(const Clock& clock, int64_t updates)
      : clock_(clock), updates_(static_cast<uint64_t>(updates)) {}

  void read(uint64_t done) {
    if (!progress_) progress_.emplace(clock_, "reading text", 0);
    progress_->show(done, human_bytes(done));
  }
  void begin() {
    progress_.emplace(clock_, "training", updates_);
    training_ = true;
  }
  void show(const UpdateReport& report, double tokens_per_second) {
    progress_->show(static_cast<uint64_t>(report.update),
                    fmt::format("loss {:.4f}  {} tokens/s", report.loss,
                                human_count(static_cast<uint64_t>(tokens_per_second))));
  }
  void note(const std::string& line) {
    if (training_) return progress_->note(line);
    progress_.reset();  // the text has been read
    say(line + "\n");
  }
  void warn(const std::string& warning) { note("warning: " + warning); }
  void finish(int64_t updates) {
    progress_->finish(fmt::format("{} of {} updates", updates, updates_));
  }

 private:
  const Clock& clock_;
  uint64_t updates_;
  bool training_ = false;
  std::optional<Progress> progress_;
};

// Between two attempts at the last checkpoint. Ctrl-C gives up; if the run ends because of one, the
// next ends the program.
class WaitForSpace {
 public:
  bool operator()(const Error& error) {
    if (tries_ == 0) {
      stopped_before_ = interrupted();
      // Not through the display: workers may still train, and draw there from another thread.
      say(fmt::format("{}warning: {}; tries again for {} minutes, Ctrl-C gives up\n",
                      stderr_is_terminal() ? "\n" : "", error.message, kTriesMax / 60));
    }
    wait_for_signal(Nanos{1'000'000'000});
    return ++tries_ < kTriesMax && (stopped_before_ || !interrupted());
  }

 private:
  static constexpr int kTriesMax = 300;  // one a second
  int tries_ = 0;
  bool stopped_before_ = false;
};

// What was measured, if there is more than one replica that it could be.
std::string measured_text(const Evaluated& at) {
  if (at.own) return fmt::format(" of replica {}'s own weights", at.replicas.member(0).value);
  if (at.replicas.size() < 2) return "";
  return fmt::format(" of the {} of {} replicas", at.common ? "common model" : "mean",
                     at.replicas.size());
}

TrainingObserver observer_for(Display& display, std::optional<SignalWatch>& signals) {
  TrainingObserver observer;
  observer.updated = [&](const UpdateReport& report, double tokens_per_second) {
    display.show(report, tokens_per_second);
  };
  observer.evaluated = [&](const Evaluated& at) {
    display.note(
        fmt::format("update {}: validation loss {:.4f}{}", at.update, at.loss, measured_text(at)));
  };
  observer.saved = [&](const Path& checkpoint) {
    display.note(fmt::format("saved {}", checkpoint.string()));
  };
  observer.warned = [&](const std::string& warning) { display.warn(warning); };
  observer.noted = [&](const std::string& note) { display.note(note); };
  observer.begun = [&](const std::function<void(Ask)>& ask) {
    signals.emplace([ask, told = int64_t{0}]() mutable {
      if (interrupted()) ask(Ask::kStop);
      if (save_requests() > std::exchange(told, save_requests())) ask(Ask::kSave);
    });
  };
  observer.wait_to_save = WaitForSpace();
  return observer;
}

// What the stages of pipelines sent each other.
std::string pipeline_line(const nlohmann::json& json) {
  const auto activations = json["bytes_activations"].get<uint64_t>();
  const auto gradients = json["bytes_gradients"].get<uint64_t>();
  return fmt::format("stages sent each other {} (activations {}, gradients {})\n",
                     human_bytes(activations + gradients), human_bytes(activations),
                     human_bytes(gradients));
}

// What the replicas sent each other, what all-reduce would have sent, and how rounds went.
std::string averaging_lines(const nlohmann::json& json) {
  const auto averaging = json["bytes_averaging"].get<uint64_t>();
  const auto usual = json["bytes_allreduce"].get<uint64_t>();
  const auto sent = json.value("bytes_total_between_replicas", averaging);
  if (averaging == 0 || usual == 0) return "";
  std::string lines = fmt::format(
      "replicas sent each other {} (averaging {}, evaluation {}), gradient all-reduce would have "
      "sent {}: {:.1f} %\n",
      human_bytes(sent), human_bytes(averaging), human_bytes(sent - averaging), human_bytes(usual),
      100 * static_cast<double>(sent) / static_cast<double>(usual));
  lines += counted(json["rounds"].get<uint64_t>(), "round");
  if (!json["lag_mean"].is_null()) {
    lines += fmt::format(", merged {:.2f} updates after sending (at most {:.3g})",
                         json["lag_mean"].get<double>(), json["lag_max"].get<double>());
  }
  if (!json["consensus"].is_null()) {
    lines +=
        fmt::format(", replicas {:.2g} % from their mean", 100 * json["consensus"].get<double>());
  }
  if (json.contains("agreement") && !json["agreement"].is_null()) {
    lines += fmt::format(", the model of the replicas: {}", json["agreement"].get<std::string>());
  }
  lines += "\n";
  if (!json.contains("contributors")) return lines;  // written by an earlier version
  const auto contributors = json["contributors"].get<std::vector<int64_t>>();
  const auto means = std::accumulate(contributors.begin(), contributors.end(), int64_t{0});
  const auto percent = [&](int64_t some) {
    return 100 * static_cast<double>(some) / static_cast<double>(std::max<int64_t>(1, means));
  };
  return lines + fmt::format("means with all {} replicas: {:.1f} %, with one: {:.1f} %\n",
                             contributors.size(), percent(contributors.back()),
                             percent(contributors.front()));
}

std::string summary_lines(const TrainingSummary& summary, const Path& folder) {
  const auto json = nlohmann::json::parse(summary.json);
  const auto number = [&](const char* key) {
    return json[key].is_null() ? std::string("none")
                               : fmt::format("{:.4f}", json[key].get<double>());
  };
  std::string lines = fmt::format(
      "{} parameters, {} tokens in {}, {} tokens/s\n",
      human_count(json["parameters"].get<uint64_t>()), human_count(json["tokens"].get<uint64_t>()),
      human_seconds(json["seconds"].get<double>()),
      human_count(static_cast<uint64_t>(json["tokens_per_second"].get<double>())));
  lines +=
      fmt::format("train loss {} (mean of the last {}), validation loss {}\n", number("train_loss"),
                  counted(std::min<int64_t>(20, json["updates"].get<int64_t>()), "update"),
                  number("valid_loss"));
  if (!json["valid_loss_own"].is_null()) {
    lines += fmt::format("validation loss {} of replica {}'s own weights, at update {}\n",
                         number("valid_loss_own"), json["valid_replica_own"].get<int64_t>(),
                         json["valid_update_own"].get<int64_t>());
  }
  if (json["bytes_activations"].get<uint64_t>() > 0) lines += pipeline_line(json);
  if (json["replicas"].get<int64_t>() > 1) lines += averaging_lines(json);
  return lines + fmt::format("run folder {}\n", folder.string());
}

Result<TrainingSummary> train_watched(const TrainArguments& arguments, const LoadedRecipe& loaded,
                                      const Clock& clock, const TrainingCrew& crew,
                                      std::unique_ptr<Dashboard>& dashboard) {
  const Path folder = arguments.folder();
  Display display(clock, loaded.recipe.run.updates);
  std::optional<SignalWatch> signals;
  TrainOptions options = {.folder = folder,
                          .existing = arguments.existing(),
                          .stop_at = arguments.stop_at,
                          .crew = crew.crew,
                          .text_cache = user_text_cache(),
                          .observer = observer_for(display, signals)};
  options.reading = [&](uint64_t done, uint64_t) {
    display.read(done);
    return !interrupted();
  };
  options.checked = [&]() -> Status {
    LEEWAY_ASSIGN(dashboard, open_dashboard(arguments.dashboard, clock));
    return {};
  };
  options.folder_taken = [&] {
    if (dashboard) dashboard->follow(folder, RunWriter::kThisProgram);
    display.begin();
    return crew.folder_taken ? crew.folder_taken() : Status();
  };
  if (crew.updated) {
    options.observer.updated = [show = options.observer.updated, &crew](const UpdateReport& report,
                                                                        double speed) {
      crew.updated(report.update);
      show(report, speed);
    };
  }
  LEEWAY_ASSIGN(TrainingSummary summary, train(loaded, options));
  if (!summary.nothing_to_do) display.finish(summary.updates);
  return summary;
}

}  // namespace

Status train_and_print(const TrainArguments& arguments, const LoadedRecipe& loaded,
                       const Clock& clock, const TrainingCrew& crew) {
  const Path folder = arguments.folder();
  std::unique_ptr<Dashboard> dashboard;  // until the summary is printed
  LEEWAY_ASSIGN(const TrainingSummary summary,
                train_watched(arguments, loaded, clock, crew, dashboard));
  if (summary.nothing_to_do) {
    say(fmt::format("{} is finished; to train further: {} {} --set run.updates=N\n",
                    folder.string(), crew.resume, shell_word(folder.string())));
  }
  print_result(arguments.json ? summary.json : summary_lines(summary, folder));
  if (interrupted() && !summary.finished) {
    return stopped_error(
        fmt::format("stopped at update {}; everything is saved, resume with: {} {}",
                    summary.updates, crew.resume, shell_word(folder.string())));
  }
  return {};
}

namespace {

// `train --resume RUN` means the run, not a recipe of that name.
void name_the_run(TrainArguments& arguments) {
  std::error_code code;
  const Path& named = arguments.recipe.recipe;
  if (!arguments.resume || !arguments.out.empty() || !std::filesystem::is_directory(named, code))
    return;
  arguments.out = std::exchange(arguments.recipe.recipe, "");
}

}  // namespace

void watch_signals() {
  survive_failed_writes();
  watch_for_interrupt();
  watch_for_save_requests();
}

Result<Path> recipe_file(TrainArguments& arguments) {
  name_the_run(arguments);
  std::error_code code;
  const Path named = arguments.recipe.recipe;
  if (!arguments.resume && std::filesystem::exists(named / "config.toml", code)) {
    return usage_error(fmt::format("{} is a run, not a recipe; to continue it: leeway resume {}",
                                   named.string(), shell_word(named.string())));
  }
  if (!named.empty()) return named;
  if (!arguments.resume || arguments.out.empty())
    return usage_error("name a RECIPE, or a run to resume: leeway resume RUN");
  const Path of_run = arguments.folder() / "config.toml";
  if (std::filesystem::exists(of_run, code)) return of_run;
  return usage_error(
      fmt::format("{} has no run to resume; name a run folder, or start one with leeway train",
                  arguments.folder().string()));
}

Result<LoadedRecipe> begin_training(TrainArguments& arguments) {
  watch_signals();
  LEEWAY_ASSIGN(const Path file, recipe_file(arguments));
  if (!arguments.driver.empty()) arguments.recipe.sets.push_back("run.driver=" + arguments.driver);
  return load_with_notes(file, arguments.recipe.sets);
}

void add_session_arguments(CLI::App& command, TrainArguments& arguments) {
  command.add_flag("--json", arguments.json, "Print summary.json to standard output");
  command
      .add_option("--stop-at", arguments.stop_at,
                  "Save a checkpoint and exit after this many updates")
      ->check(at_least(1));
  add_dashboard_arguments(command, "--dashboard", "--dashboard-", arguments.dashboard);
}

void add_train_arguments(CLI::App& command, TrainArguments& arguments) {
  add_recipe_arguments(command, arguments.recipe);
  command.add_option("--out", arguments.out,
                     "Run folder [out/ plus the recipe's name]; a finished run in it is moved "
                     "aside");
  CLI::Option* resume =
      command.add_flag("--resume", arguments.resume, "Resume the unfinished run in --out");
  command.add_flag("--fresh", arguments.fresh, "Move an unfinished run aside and start over")
      ->excludes(resume);
  add_session_arguments(command, arguments);
}

const char* const kSignalsHelp =
    "Ctrl-C and SIGTERM drain the pipeline, save a checkpoint and exit with 130 and 143; `leeway\n"
    "resume` continues from there. SIGUSR1 saves a checkpoint, and training goes on.";

}  // namespace leeway::cli
