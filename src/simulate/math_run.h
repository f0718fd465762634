// Really trains one method on a simulated cluster: which loss it would reach, and when. If the
// model is too large for this machine, a stand-in recipe trains at its pace: the small model's
// losses, the large model's time.
#pragma once

#include <functional>

#include "base/files.h"
#include "base/held_folder.h"
#include "data/dataset.h"
#include "simulate/method_run.h"

namespace leeway {

// Trains all of `trained` in `folder` in simulated time and adds the losses to `result`. `trained`
// is the request's own recipe or one with the same mesh. Costs and bytes are the request's, but
// the validation forwards of a stand-in are free, because it is not part of the run it stands for.
// `watch` gets the update and the loss, and returns whether to continue.
using MathWatch = std::function<bool(int64_t update, double loss)>;
Status train_on(const Cluster& cluster, const MethodRequest& request, const LoadedRecipe& trained,
                const Dataset& data, const HeldFolder& folder, const MathWatch& watch,
                MethodResult& result);

}  // namespace leeway
