// Translates a recipe's tables into the options of the folders that use them: config knows nothing
// about models and optimizers, they know nothing about recipes.
#pragma once

#include "compute/stage_wire.h"
#include "config/recipe.h"
#include "model/shape.h"
#include "optim/rate_schedule.h"
#include "pipeline/schedule.h"
#include "pipeline/stage.h"

namespace leeway {

RateScheduleOptions rate_schedule_options(const Recipe& recipe);

PipelineShape pipeline_shape(const Recipe& recipe);

int64_t tokens_per_update(const Recipe& recipe);  // over all replicas
int64_t microbatch_sequences(const Recipe& recipe);
int64_t microbatch_tokens(const Recipe& recipe);

// kPlan is for what only counts: with very many stages or very late gradients, `matched` then gets
// constants that need as much memory but are not the fitted ones. Fitting them would take minutes.
enum class StagesFor { kTraining, kPlan };

// What stages send each other for a microbatch.
StageWire stage_wire(const Recipe& recipe, const StageOptions& stage);

// Whether microbatches of a worker on that device are graphs.
bool uses_graphs(const PipelineOptions& pipeline, const at::Device& device);

// One per stage of the mesh, with the look-ahead for its delays. The device is that of the recipe;
// which GPU a worker gets is up to placement.h.
std::vector<StageOptions> stage_options(const Recipe& recipe, int64_t vocabulary,
                                        StagesFor use = StagesFor::kTraining);

}  // namespace leeway
