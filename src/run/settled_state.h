// A checkpoint of a run with one common model, as a session begins with it: every replica has the
// same model, and nothing is under way.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/saved_run.h"
#include "config/recipe.h"
#include "worker/run_plan.h"

namespace leeway {

// Replicas that do not wait for each other save after different answers. Of each chunk the newest
// one counts: replicas that were behind take it, without those of their contributions under way
// that are in it. Nothing counts twice. Lost is only what the owner of a chunk had yet to say, if
// it saved before that answer; returns what it did, for the user. A state of an earlier version has
// its own steps beside the weights: the common model is what they leave. Fails if what is said to
// be under way cannot have been sent.
Result<std::vector<std::string>> settle(SavedRun& saved, const Recipe& recipe);

// Where the replicas of a checkpoint resume.
std::vector<ReplicaStart> starts_of(const SavedRun& saved);

}  // namespace leeway
