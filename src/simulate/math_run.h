// One method on a cluster with its arithmetic: the loss that machines which nobody has yet would
// reach, and when. Where the model is too large for this machine another recipe trains in its
// place, at its pace: the small one's losses, the large one's time.
#pragma once

#include <functional>

#include "base/files.h"
#include "data/dataset.h"
#include "simulate/method_run.h"

namespace leeway {

// Trains the whole of `trained` in `folder` in simulated time and adds what it found to `result`:
// the request's own recipe, or one with the same mesh. Costs and bytes are the request's; but to
// evaluate a stand-in is free, as it is no part of what it stands for.
// `watch` is told the updates and the loss, and says whether to go on.
using MathWatch = std::function<bool(int64_t update, double loss)>;
Status train_on(const Cluster& cluster, const MethodRequest& request, const LoadedRecipe& trained,
                const Dataset& data, const Path& folder, const MathWatch& watch,
                MethodResult& result);

}  // namespace leeway
