#include "run/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/names.h"
#include "checkpoint/checkpoint_folder.h"
#include "config/differences.h"
#include "config/named.h"
#include "config/print.h"
#include "recipe/averaging_report.h"
#include "recipe/memory_check.h"
#include "recipe/mesh_report.h"
#include "recipe/planned_memory.h"
#include "run/device.h"
#include "run/drivers.h"
#include "run/failure.h"
#include "run/local_crew.h"
#include "run/recipe_data.h"
#include "run/training_run.h"

namespace leeway {
namespace {

void note(const TrainOptions& options, const std::string& text) {
  if (options.observer.noted) options.observer.noted(text);
}

void warn(const TrainOptions& options, const std::string& text) {
  if (options.observer.warned) options.observer.warned(text);
}

// Sentences that may begin with "warning: ".
void tell(const TrainOptions& options, const std::vector<std::string>& sentences) {
  constexpr std::string_view kWarning = "warning: ";
  for (const std::string& sentence : sentences) {
    if (sentence.starts_with(kWarning)) {
      warn(options, sentence.substr(kWarning.size()));
    } else {
      note(options, sentence);
    }
  }
}

// What the command line has checked, a caller may not have: values that no file could have set
// would be found later, as bugs of this program.
Status check_arguments(const LoadedRecipe& loaded, const TrainOptions& options) {
  if (options.folder.empty()) return usage_error("the run has no folder; name one");
  if (options.stop_at < 0) {
    return usage_error(
        fmt::format("a run cannot stop at update {}; give 1 or more, or 0 for the "
                    "end of the run",
                    options.stop_at));
  }
  const DriverName driver = loaded.recipe.run.driver;
  const bool many = driver == DriverName::kZmq || driver == DriverName::kMpi;
  if (many && options.crew == nullptr) {
    return usage_error(
        fmt::format("{} is for many processes, and train() is one: choose threads "
                    "or sim",
                    named(loaded, "run.driver")));
  }
  LEEWAY_ASSIGN(const LoadedRecipe again, parse_recipe(print_recipe(loaded), "the recipe", {}));
  for (const Difference& change : differences(loaded.recipe, again.recipe)) {
    return usage_error(
        fmt::format("{} is {}, but would be read back as {}; load the recipe, or "
                    "complete it with check_recipe()",
                    change.key, change.first, change.second));
  }
  return {};
}

// A resumed run keeps its model, data and optimizer; its rates may change. Returns the changes in
// words.
Result<std::vector<std::string>> check_same_run(const Recipe& recipe, const Path& folder) {
  LEEWAY_ASSIGN(const LoadedRecipe begun, load_recipe(folder / "config.toml", {}));
  std::vector<std::string> changes;
  for (const Difference& change : differences(begun.recipe, recipe)) {
    if (change.key == "mesh.stages") {
      return usage_error(fmt::format(
          "mesh.stages was {} when {} began and is {} now ({}); resume with the old value, or cut "
          "the model anew in another folder: leeway reshape {} --stages {} --replicas {} --out NEW",
          change.first, folder.string(), change.second, change.reason, shell_word(folder.string()),
          change.second, recipe.mesh.replicas));
    }
    if (!change.may_change) {
      return usage_error(fmt::format(
          "{} was {} when {} began and is {} now{}; resume with the old value, or start a new run "
          "in another --out",
          change.key, change.first, folder.string(), change.second,
          change.reason.empty() ? "" : fmt::format(" ({})", change.reason)));
    }
    changes.push_back(
        fmt::format("{} was {} and is now {}", change.key, change.first, change.second));
  }
  return changes;
}

// The summary of a finished run that has all its updates: resumed, as schedulers do, it has nothing
// left to do.
std::optional<TrainingSummary> finished_summary(const Recipe& recipe, const Path& folder) {
  const Result<RunFolderState> state = run_folder_state(folder);
  if (!state.ok() || *state != RunFolderState::kFinished) return std::nullopt;
  const Result<std::string> text = read_text(folder / "summary.json");
  if (!text.ok()) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const bool all = json.is_object() && json.contains("updates") && json["updates"].is_number() &&
                   json["updates"] == recipe.run.updates;
  if (!all) return std::nullopt;
  return TrainingSummary{*text, /*finished=*/true, recipe.run.updates, /*nothing_to_do=*/true};
}

Status check_no_changes(const std::vector<std::string>& changes, const Path& folder) {
  if (changes.empty()) return {};
  return usage_error(fmt::format(
      "{} is finished, so this has no effect: {}; to train further: leeway resume {} --set "
      "run.updates=N",
      folder.string(), fmt::join(changes, ", "), shell_word(folder.string())));
}

Path cache_of(const TrainOptions& options) {
  if (!options.text_cache.empty()) return text_cache(options.folder, options.text_cache);
  return text_cache(options.folder, std::filesystem::temp_directory_path() / "leeway/text");
}

// The folder of the run: held from before, or an empty one.
Result<HeldFolder> take_folder(const TrainOptions& options, std::optional<HeldFolder> existing) {
  if (options.existing == ExistingRun::kResume) return std::move(*existing);
  LEEWAY_ASSIGN(NewRun begun, begin_run(options.folder, std::move(existing)));
  if (begun.aside) {
    note(options, fmt::format("moved the earlier run in {} to {}", options.folder.string(),
                              begun.aside->string()));
  }
  return std::move(begun.folder);
}

// `vocabulary`: set as soon as it is known.
Result<TrainingSummary> train_in_folder(const LoadedRecipe& loaded, const TrainOptions& options,
                                        std::optional<int64_t>& vocabulary) {
  const Recipe& recipe = loaded.recipe;
  const Path& folder = options.folder;
  const bool resume = options.existing == ExistingRun::kResume;
  LEEWAY_TRY(check_arguments(loaded, options));
  if (options.crew == nullptr) LEEWAY_TRY(check_machine(loaded));
  LEEWAY_ASSIGN(auto existing, hold_existing_run(folder, options.existing));
  std::vector<std::string> changes;
  if (resume) {
    LEEWAY_ASSIGN(changes, check_same_run(recipe, folder));
    if (auto summary = finished_summary(recipe, folder)) {
      LEEWAY_TRY(check_no_changes(changes, folder));
      return *std::move(summary);
    }
  }
  if (options.checked) LEEWAY_TRY(options.checked());
  if (options.crew == nullptr) set_up_compute(recipe);
  const auto reading = [&](uint64_t done, uint64_t total) {
    return !options.reading || options.reading(done, total);
  };
  const Recipe found = resume ? with_data_found(recipe, folder) : recipe;
  LEEWAY_ASSIGN(const Dataset data, open_dataset(data_spec(found), cache_of(options), reading));
  vocabulary = data.vocabulary;
  tell(options, data.notes);
  LEEWAY_TRY(check_enough(data, recipe));
  if (options.crew == nullptr) {
    const std::vector<StageMemory> plan = planned_memory(recipe, data.vocabulary);
    const DeviceMemory there = memory_here(gpu_memories());
    LEEWAY_TRY(check_memory(recipe, plan, there));
    tell(options, memory_notes(recipe, plan, there));
  }
  tell(options, pipeline_notes(loaded));
  tell(options, averaging_notes(loaded, data.vocabulary));
  // Only now, when little can keep the new run from starting.
  LEEWAY_ASSIGN(const HeldFolder held, take_folder(options, std::move(existing)));
  if (!held.locked()) {
    warn(options, fmt::format("the file system of {} has no locks: make sure that no other process "
                              "trains there",
                              folder.string()));
  }
  if (options.folder_taken) LEEWAY_TRY(options.folder_taken());
  TrainingRequest request = {.recipe = recipe,
                             .recipe_text = print_recipe(loaded),
                             .folder = held,
                             .resume = resume,
                             .changes = changes,
                             .stop_at = options.stop_at};
  while (true) {
    const std::unique_ptr<Crew> own =
        options.crew != nullptr ? nullptr
                                : std::make_unique<LocalCrew>(make_driver(recipe, data.vocabulary));
    Crew& crew = own ? *own : *options.crew;
    LEEWAY_ASSIGN(TrainingSummary summary, train(request, data, crew, options.observer));
    if (!summary.regroups) return summary;
    // Before the first checkpoint there is nothing to go on from.
    const std::vector<Path> saved = list_checkpoints(held.at("checkpoints"));
    request.resume = !saved.empty();
    note(options,
         request.resume
             ? fmt::format("all replicas are there again, and go on together from {}",
                           saved.back().filename().string())
             : std::string("all replicas are there again; nothing is saved yet, so the run "
                           "begins anew"));
    request.changes.clear();
  }
}

}  // namespace

Result<TrainingSummary> train(const LoadedRecipe& loaded, const TrainOptions& options) {
  LoadedRecipe here = loaded;
  if (options.crew == nullptr) here.recipe.run.device = device_here(here.recipe.run);
  std::optional<int64_t> vocabulary;
  try {
    return train_in_folder(here, options, vocabulary);
  } catch (...) {
    return failure_of(std::current_exception(), here.recipe, vocabulary);
  }
}

Result<TrainingSummary> train(const Recipe& recipe, const TrainOptions& options) {
  LEEWAY_ASSIGN(const LoadedRecipe loaded, check_recipe(recipe));
  return train(loaded, options);
}

}  // namespace leeway
