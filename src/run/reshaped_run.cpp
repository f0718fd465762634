#include "run/reshaped_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/atomic_folder.h"
#include "base/hash.h"
#include "base/names.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/saved_run.h"
#include "config/differences.h"
#include "config/load.h"
#include "config/print.h"
#include "events/event_log.h"
#include "run/reshaped_state.h"
#include "run/run_folder.h"
#include "run/settled_state.h"
#include "run/training_run.h"

namespace leeway {
namespace {

namespace fs = std::filesystem;

struct Source {
  Path run;
  std::vector<Path> named;  // checkpoints to choose from, newest last
  Path checkpoint = {};
  SavedRun saved = {};
  std::vector<std::string> warnings = {};
};

bool is_inside(const Path& path, const Path& folder) {
  std::error_code code;
  const Path way =
      fs::weakly_canonical(path, code).lexically_relative(fs::weakly_canonical(folder, code));
  return !code && !way.empty() && *way.begin() != "..";
}

Result<Source> find_source(const Path& from) {
  std::error_code code;
  const Path folder = fs::canonical(from, code);  // also strips a trailing slash
  if (code || !fs::is_directory(folder, code)) {
    return usage_error(fmt::format(
        "{} is not a checkpoint or a run folder; name one that `leeway train --out` wrote",
        from.string()));
  }
  const bool is_checkpoint = checkpoint_update(folder).has_value();
  const Path given = without_slash(from);  // sentences name what the user named
  Source source = {.run = is_checkpoint ? folder.parent_path().parent_path() : given, .named = {}};
  if (!fs::exists(source.run / "config.toml", code)) {
    return usage_error(
        is_checkpoint
            ? fmt::format("{} is not in a run folder, so its recipe is not known; put it back in "
                          "the checkpoints/ of its run",
                          from.string())
            : fmt::format("{} is not a run folder; name one that `leeway train --out` wrote",
                          from.string()));
  }
  source.named = {given};
  if (!is_checkpoint) source.named = named_checkpoints(given / "checkpoints");
  if (!source.named.empty()) return source;
  return usage_error(
      fmt::format("{} has no checkpoint yet; train it further first: leeway resume "
                  "{}",
                  from.string(), shell_word(from.string())));
}

// The newest intact one of several; of one that was named, why it is not.
Status load_newest_of(Source& source) {
  for (auto it = source.named.rbegin(); it != source.named.rend(); ++it) {
    Result<SavedRun> saved = load_run(*it, /*with_optimizer=*/true);
    if (saved) {
      source.checkpoint = *it;
      source.saved = std::move(*saved);
      return {};
    }
    if (source.named.size() == 1) return saved.error();
    source.warnings.push_back(saved.error().message);
  }
  return Error{source.warnings.back()};
}

Status check_out(const Path& out, const Path& run) {
  std::error_code code;
  const auto status = fs::symlink_status(out, code);
  const bool is_empty_folder = fs::is_directory(status) && fs::is_empty(out, code);
  if (fs::exists(status) && !is_empty_folder) {
    return usage_error(fmt::format("--out {} exists; choose another name", out.string()));
  }
  if (!is_inside(out, run)) return {};
  return usage_error(
      fmt::format("--out {} is inside the run that is read; choose a folder beside "
                  "it",
                  out.string()));
}

// The run's recipe on its new mesh. A number of microbatches that followed from the mesh follows
// from the new one.
Result<LoadedRecipe> new_recipe(const Recipe& before, const ReshapeRequest& request,
                                const Path& run) {
  const auto number_of = [](int64_t stages, const Recipe& recipe) {
    return (stages - 1) * (1 + recipe.pipeline.extra_per_hop) + 1;
  };
  std::vector<std::string> sets = {fmt::format("mesh.stages={}", request.stages),
                                   fmt::format("mesh.replicas={}", request.replicas)};
  if (before.pipeline.update_every == number_of(before.mesh.stages, before)) {
    sets.emplace_back("pipeline.update_every=auto");
  }
  sets.insert(sets.end(), request.sets.begin(), request.sets.end());
  return load_recipe(run / "config.toml", sets);
}

// What a resumed run may change, and what follows from the mesh.
Result<std::vector<std::string>> check_changes(const Recipe& before, const Recipe& after) {
  std::vector<std::string> changes;
  for (const Difference& change : differences(before, after)) {
    const bool of_mesh = change.key.starts_with("mesh.") || change.key.starts_with("pipeline.");
    if (!change.may_change && !of_mesh) {
      return usage_error(
          fmt::format("{} was {} in the run and would be {}{}; reshape with the old "
                      "value",
                      change.key, change.first, change.second,
                      change.reason.empty() ? "" : fmt::format(" ({})", change.reason)));
    }
    changes.push_back(
        fmt::format("{} was {} and is now {}", change.key, change.first, change.second));
  }
  return changes;
}

// Where the paths in the recipe lead from, seen from the new folder.
std::string start_of_new(const Path& run, const std::optional<Event>& started, const Path& out) {
  const std::string start = started ? started->text("start").value_or("") : "";
  if (start.empty()) return way_to_start(out);
  std::error_code code;
  const Path way = fs::relative(run / start, fs::absolute(out, code), code);
  return way.string();
}

Status write_log(const Path& path, const Source& source, const ReshapeRequest& request,
                 const std::vector<std::string>& changes) {
  const std::optional<Event> first = first_event(source.run / "events.jsonl");
  Event started = first && first->kind() == "started" ? *first : Event("started");
  const std::string place = fs::absolute(request.out).string();
  started.add("version", program_version())
      .add("run", hash_hex(hash_bytes(std::as_bytes(std::span(place)))))
      .add("start", start_of_new(source.run, first, request.out))
      .add("data_hash", hash_hex(source.saved.counters.data_hash))
      .add("tokenizer_hash", hash_hex(source.saved.counters.tokenizer_hash))
      .add("reshaped_from", source.checkpoint.string())
      .remove("cores")
      .remove("threads")
      .remove(kTickName);
  LEEWAY_ASSIGN(EventLog log, EventLog::open(path, /*append=*/false));
  LEEWAY_TRY(log.write(started));
  const int64_t update = source.saved.counters.update;
  for (const std::string& change : changes) {
    LEEWAY_TRY(log.write(Event("changed").add("update", update).add("change", change)));
  }
  return log.flush();
}

}  // namespace

Result<ReshapedRun> reshape_run(const ReshapeRequest& request) {
  LEEWAY_ASSIGN(Source source, find_source(request.from));
  LEEWAY_TRY(check_out(request.out, source.run));
  LEEWAY_ASSIGN(const LoadedRecipe before, load_recipe(source.run / "config.toml", {}));
  LEEWAY_ASSIGN(LoadedRecipe after, new_recipe(before.recipe, request, source.run));
  LEEWAY_ASSIGN(std::vector<std::string> changes, check_changes(before.recipe, after.recipe));
  LEEWAY_TRY(load_newest_of(source));
  LEEWAY_ASSIGN(const std::vector<std::string> settled, settle(source.saved, before.recipe));
  Result<std::vector<std::string>> moves = reshape(source.saved, after.recipe);
  if (!moves) return Error{source.checkpoint.string() + ": " + moves.error().message};
  changes.insert(changes.begin(), "the run goes on from " + source.checkpoint.string());
  changes.insert(changes.end(), settled.begin(), settled.end());
  changes.insert(changes.end(), moves->begin(), moves->end());
  LEEWAY_ASSIGN(AtomicFolder folder, AtomicFolder::create(request.out));
  LEEWAY_TRY(make_folder(folder.path() / "checkpoints"));
  LEEWAY_ASSIGN(const Path saved, save_run(folder.path() / "checkpoints", source.saved,
                                           after.recipe.run.keep, after.recipe.mesh.stages));
  LEEWAY_TRY(write_atomically(folder.path() / "config.toml", print_recipe(after)));
  LEEWAY_TRY(copy_tokenizer(source.run / "tokenizer", folder.path() / "tokenizer"));
  LEEWAY_TRY(write_log(folder.path() / "events.jsonl", source, request, changes));
  LEEWAY_TRY(folder.commit());
  return ReshapedRun{.checkpoint = source.checkpoint,
                     .update = source.saved.counters.update,
                     .changes = std::move(changes),
                     .warnings = std::move(source.warnings),
                     .notes = std::move(after.notes)};
}

}  // namespace leeway
