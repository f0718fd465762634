// A saved run on another mesh: stages cut anew, replicas that leave, replicas that are copied.
#pragma once

#include <string>
#include <vector>

#include "base/mesh.h"
#include "base/result.h"
#include "checkpoint/saved_run.h"
#include "config/recipe.h"

namespace leeway {

// The mesh that a checkpoint was saved on. An error if its replicas do not agree on it.
Result<Mesh> mesh_of(const SavedRun& saved);

// Makes of a checkpoint what the recipe's mesh resumes from, and says in sentences what became of
// its replicas and of the position in the data; none if the mesh is the same.
// - Replicas with the lowest numbers stay; further ones are copied from those that are there, as
//   averaging wants a newcomer (averaging/newcomer.h).
// - Rounds keep their numbers in a stage that has the same layers and the same number; in others
//   they go on from the largest.
// - The data goes on where the fleet was, whatever the number of replicas.
Result<std::vector<std::string>> reshape(SavedRun& saved, const Recipe& recipe);

}  // namespace leeway
