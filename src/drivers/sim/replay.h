// A recorded run once more, in the recorded order: what each worker did then, it must do now.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "events/work.h"
#include "worker/outbox.h"
#include "worker/workers.h"

namespace leeway::sim {

// The workers are a whole mesh, replica after replica, stage after stage, with a plan that neither
// evaluates nor saves: records of that are passed over. Each other record must be what its worker
// would do next; messages arrive at once. The error names the first record that is not, or says
// that the records end before the run does. Records are in an order in which they can happen: a
// driver that reports a piece of work before its messages leave writes them so.
Status replay(const Workers& workers, const std::vector<WorkRecord>& recorded, Recorder& recorder);

}  // namespace leeway::sim
