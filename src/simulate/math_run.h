// One method on a cluster with its arithmetic: the loss that machines which nobody has yet would
// reach, and when.
#pragma once

#include <functional>

#include "base/files.h"
#include "data/dataset.h"
#include "simulate/method_run.h"

namespace leeway {

// Trains the whole recipe in `folder` in simulated time and adds what it found to `result`.
// `watch` is told the updates and the loss, and says whether to go on.
using MathWatch = std::function<bool(int64_t update, double loss)>;
Status train_on(const Cluster& cluster, const MethodRequest& request, const Dataset& data,
                const Path& folder, const MathWatch& watch, MethodResult& result);

}  // namespace leeway
