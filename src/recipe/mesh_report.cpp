#include "recipe/mesh_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/human.h"
#include "base/text_table.h"
#include "config/named.h"
#include "config/words.h"
#include "pipeline/schedule.h"
#include "recipe/averaging_report.h"
#include "recipe/depth_report.h"
#include "recipe/lag_report.h"
#include "recipe/memory_check.h"
#include "recipe/planned_memory.h"
#include "recipe/stage_options.h"

namespace leeway {
namespace {

std::string layers_text(const StageSlice& slice) {
  const int64_t last = slice.first_layer + slice.layers - 1;
  std::string text = slice.embeds ? "embedding, " : "";
  text += slice.layers == 1 ? fmt::format("{}", last)
                            : fmt::format("{} to {}", slice.first_layer, last);
  return slice.heads ? text + ", head" : text;
}

// `slices` is empty if the vocabulary is unknown: the cut depends on it.
std::string stages_table(const Recipe& recipe, const std::vector<StageMemory>& memory,
                         const std::vector<StageSlice>& slices) {
  const PipelineShape shape = pipeline_shape(recipe);
  Row heading = {"stage", "delay mean", "delay max", "in flight"};
  if (!slices.empty()) heading.insert(heading.end(), {"versions", "layers", "parameters"});
  std::vector<Row> rows;
  for (size_t s = 0; s < static_cast<size_t>(shape.stages); ++s) {
    const Schedule schedule(shape, {static_cast<int64_t>(s)});
    const int64_t in_flight = slices.empty() ? schedule.warmup() + 1 : memory[s].in_flight;
    rows.push_back({fmt::format("{}", s), fmt::format("{:.2f}", schedule.delay_mean()),
                    fmt::format("{}", schedule.delay_max()), fmt::format("{}", in_flight)});
    if (slices.empty()) continue;
    rows.back().push_back(fmt::format("{}", memory[s].version_count));
    rows.back().push_back(layers_text(slices[s]));
    rows.back().push_back(human_count(static_cast<uint64_t>(memory[s].parameters)));
  }
  return stages_text(heading, rows);
}

Row memory_row(const std::string& name, const StageMemory& need, bool with_host) {
  std::vector<double> parts = {need.weights,     need.gradients,  need.optimizer,
                               need.last_update, need.averaging,  need.versions,
                               need.activations, need.evaluation, need.passing + need.working,
                               need.total()};
  if (with_host) parts.push_back(need.host);
  Row row = {name};
  for (const double bytes : parts) row.push_back(bytes == 0 ? "-" : shown_bytes(bytes));
  return row;
}

// What the stages of all replicas send each other.
std::string hops_text(const Recipe& recipe, const StageOptions& stage) {
  if (recipe.mesh.stages == 1) return "";
  const auto hop = static_cast<double>(stage_wire(recipe, stage).bytes());
  const auto hops = static_cast<double>(2 * (recipe.mesh.stages - 1) * recipe.mesh.replicas *
                                        recipe.pipeline.update_every);
  const bool computed = recipe.pipeline.wire == PipelineWire::kF32;
  return fmt::format(
      "\n  pipeline   a stage sends {} per microbatch each way, in {}; all together {} an update\n",
      human_bytes(static_cast<uint64_t>(hop)),
      computed ? word_of(recipe.run.precision) : word_of(recipe.pipeline.wire),
      human_bytes(static_cast<uint64_t>(hop * hops)));
}

std::string notes_text(const std::vector<std::string>& notes) {
  return notes.empty() ? "" : fmt::format("\n{}\n", fmt::join(notes, "\n"));
}

}  // namespace

std::string memory_table(const Recipe& recipe, const std::vector<StageMemory>& plan) {
  const StageMemory sum = memory_of_all(recipe, plan);
  const bool with_host = sum.host > 0;
  Row heading = {"memory",   "weights",     "gradients",  "optimizer", "last update", "averaging",
                 "versions", "activations", "evaluation", "transient", "total"};
  if (with_host) heading.push_back("on the host");
  std::vector<Row> rows;
  for (size_t s = 0; s < plan.size(); ++s)
    rows.push_back(memory_row(fmt::format("{}", s), plan[s], with_host));
  const bool several = plan.size() > 1 || recipe.mesh.replicas > 1;
  const Row all = memory_row("all", sum, with_host);
  return stages_text(heading, rows, several ? all : Row());
}

std::string recipe_summary(const Recipe& recipe) {
  const ModelOptions& model = recipe.model;
  const RunOptions& run = recipe.run;
  const PipelineOptions& pipeline = recipe.pipeline;
  const bool late = recipe.mesh.stages > 1 && pipeline.schedule == PipelineSchedule::kAsync;
  const std::string lookahead =
      late ? fmt::format(", look-ahead {}", word_of(pipeline.lookahead)) : std::string();
  return fmt::format(
      "  model  {}, {} layers, width {}, {} heads, context {}\n"
      "  run    {} updates of {} tokens, {}, {} on {}, seed {}\n"
      "  mesh   {}, {}, {} microbatch{} per update, {}{}\n",
      word_of(model.architecture), model.layers, model.width, model.heads, model.context,
      run.updates, tokens_per_update(recipe), word_of(recipe.optimizer.name),
      word_of(run.precision), run.device, run.seed, counted(recipe.mesh.stages, "stage"),
      counted(recipe.mesh.replicas, "replica"), pipeline.update_every,
      pipeline.update_every == 1 ? "" : "es", word_of(pipeline.schedule), lookahead);
}

std::vector<std::string> pipeline_notes(const LoadedRecipe& loaded) {
  if (loaded.recipe.mesh.stages > 1 || !loaded.is_given("pipeline.wire")) return {};
  return {fmt::format("note: {} does nothing with one stage: raise mesh.stages, or leave it out",
                      named(loaded, "pipeline.wire"))};
}

Result<std::string> pipeline_report(const LoadedRecipe& loaded, const Result<int64_t>& vocabulary,
                                    const std::vector<double>& gpus) {
  const Recipe& recipe = loaded.recipe;
  if (!vocabulary.ok()) {
    return fmt::format(
        "\n{}\nparameters and memory are not shown: {}\n{}", stages_table(recipe, {}, {}),
        vocabulary.error().message,
        notes_text(pipeline_notes(loaded)) + notes_text(averaging_notes(loaded, std::nullopt)));
  }
  const std::vector<StageMemory> plan = planned_memory(recipe, *vocabulary);
  const DeviceMemory there = memory_here(gpus);
  LEEWAY_TRY(check_memory(recipe, plan, there));
  const auto stages = stage_options(recipe, *vocabulary, StagesFor::kPlan);
  std::vector<StageSlice> slices;
  for (const StageOptions& stage : stages) slices.push_back(stage.slice);
  const auto parameters = static_cast<uint64_t>(together(plan).parameters);
  return fmt::format("  size   {} parameters, a vocabulary of {} tokens\n\n{}\n{}{}{}{}{}",
                     human_count(parameters), human_count(static_cast<uint64_t>(*vocabulary)),
                     stages_table(recipe, plan, slices), memory_table(recipe, plan),
                     hops_text(recipe, stages.front()), averaging_report(recipe, *vocabulary),
                     notes_text(memory_notes(recipe, plan, there)) +
                         notes_text(pipeline_notes(loaded)) +
                         notes_text(averaging_notes(loaded, *vocabulary)),
                     depth_report(loaded, *vocabulary) + lag_report(recipe, *vocabulary));
}

}  // namespace leeway
