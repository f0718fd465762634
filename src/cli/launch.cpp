// leeway launch RECIPE --processes N
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/fleet_arguments.h"
#include "cli/training.h"
#include "cli/validators.h"
#include "config/print.h"
#include "drivers/threads/wall_clock.h"
#include "fleet/children.h"
#include "fleet/host.h"
#include "fleet/host_and_guest.h"
#include "fleet/zmq_wire.h"
#include "terminal/interrupt.h"

namespace leeway::cli {
namespace {

struct LaunchArguments {
  TrainArguments train;
  int64_t processes = 0;  // 0: one for each worker
  bool insecure = false;
};

Status check_processes(const LaunchArguments& arguments, const Recipe& recipe) {
  const int64_t workers = recipe.mesh.stages * recipe.mesh.replicas;
  if (arguments.processes <= workers) return {};
  return usage_error(fmt::format(
      "--processes {} is more than the {} workers of mesh.stages {} times mesh.replicas {}",
      arguments.processes, workers, recipe.mesh.stages, recipe.mesh.replicas));
}

// The host of a run, and the processes that do its work.
class Launch {
 public:
  Launch(const LaunchArguments& arguments, const LoadedRecipe& loaded)
      : arguments_(arguments), loaded_(loaded), folder_(arguments.train.folder()) {}

  Status run() {
    LEEWAY_TRY(check_processes(arguments_, loaded_.recipe));
    if (!arguments_.insecure) {
      LEEWAY_ASSIGN(host_keys_, zmq::new_key_pair());
      LEEWAY_ASSIGN(child_keys_, zmq::new_key_pair());
    }
    LEEWAY_ASSIGN(host_, Host::open(host_options()));
    Status trained =
        train_and_print(arguments_.train, loaded_, clock_,
                        {.crew = host_.get(),
                         .resume = "leeway launch --resume --out",
                         .folder_taken = [this] { return start_children(); },
                         .updated = [this](int64_t update) { children_->note_updates(update); }});
    if (children_) children_->let_end();
    say_what_is_missing(host_->merge_logs());
    host_->end("the run is over", !trained.ok());
    if (children_) children_->end();
    if (children_ && children_->failure()) return *children_->failure();
    return trained;
  }

 private:
  HostOptions host_options() {
    const auto is_child = [this](const std::string& key) {
      return child_keys_ && key == child_keys_->public_key;
    };
    return {.wire = zmq_wire({.self = kHost,
                              .listen = kHere,
                              .keys = host_keys_,
                              .allows = is_child,
                              .silent_beats = kPatientBeats,
                              .clock = clock_}),
            .recipe = loaded_.recipe,
            .recipe_text = print_recipe(loaded_),
            .folder = folder_,
            .clock = clock_,
            .said = say_aside,
            .interrupted = interrupted,
            .gave_up = [this] { return children_ && children_->failure(); },
            .gone = [this](const std::string& name) { children_->replace(name); }};
  }

  // What they print, their logs and what they save is in the run's folder, which is there by now.
  Status start_children() {
    const Path place = folder_ / "processes";
    LEEWAY_TRY(make_folder(place));
    const Path key = place / "key";
    for (const Path& earlier : {key, zmq::public_file(key)}) {
      std::error_code ignored;
      std::filesystem::remove(earlier, ignored);
    }
    if (child_keys_) LEEWAY_TRY(zmq::write_key_pair(key, *child_keys_));
    children_.emplace(
        ChildrenOptions{.program = this_program(),
                        .words = words_for_children(place, key),
                        .folder = place,
                        .clock = clock_,
                        .said = say_aside,
                        .ended = [this](const std::string& name) { host_->note_ended(name); }});
    children_->start();
    return {};
  }

  std::vector<std::vector<std::string>> words_for_children(const Path& place, const Path& key) {
    const int64_t workers = loaded_.recipe.mesh.stages * loaded_.recipe.mesh.replicas;
    const int64_t processes = arguments_.processes == 0 ? workers : arguments_.processes;
    std::vector<std::vector<std::string>> all;
    const std::string host = host_->address().substr(std::string_view("tcp://").size());
    for (int64_t at = 0; at < processes; ++at) {
      const std::string share = fmt::format("{}", share_of(workers, at, processes));
      std::vector<std::string> words = {"join",     host,  "--workers", share,
                                        "--listen", kHere, "--out",     place.string()};
      if (child_keys_) {
        for (const std::string& word : {std::string("--key"), key.string(),
                                        std::string("--host-key"), host_keys_->public_key}) {
          words.push_back(word);
        }
      }
      all.push_back(std::move(words));
    }
    return all;
  }

  static constexpr const char* kHere = "tcp://127.0.0.1:0";  // nobody from outside
  const LaunchArguments& arguments_;
  const LoadedRecipe& loaded_;
  const Path folder_;
  const threads::WallClock clock_;
  std::optional<zmq::KeyPair> host_keys_;
  std::optional<zmq::KeyPair> child_keys_;
  std::optional<Children> children_;
  std::unique_ptr<Host> host_;
};

Status run(LaunchArguments arguments) {
  arguments.train.driver = "zmq";
  LEEWAY_ASSIGN(const LoadedRecipe loaded, begin_training(arguments.train));
  return Launch(arguments, loaded).run();
}

}  // namespace

void add_launch(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("launch", "Train with several processes on this machine");
  command->footer(std::string("Example:\n"
                              "  leeway launch recipes/quickstart.toml --processes 8\n"
                              "Starts the processes, replaces those that end, and shows one "
                              "progress bar. What they\n"
                              "print is in processes/ of the run folder.\n") +
                  kSignalsHelp);
  const auto arguments = std::make_shared<LaunchArguments>();
  add_train_arguments(*command, arguments->train);
  command
      ->add_option("--processes", arguments->processes,
                   "Processes that share the workers [one for each worker]")
      ->check(at_least(1));
  command->add_flag("--insecure", arguments->insecure, "Plain text, without keys");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
