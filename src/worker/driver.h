// Who moves messages and decides when a worker gets its turn: threads, or virtual time.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "worker/clock.h"
#include "worker/outbox.h"
#include "worker/worker.h"

namespace leeway {

class Driver {
 public:
  virtual ~Driver() = default;

  // Until all workers are done or the books are abandoned. What a worker's numbers throw is thrown
  // on from here; an error is one of the driver's own.
  virtual Status run(const std::vector<std::unique_ptr<Worker>>& workers, Books& books) = 0;
  virtual const Clock& clock() const = 0;
};

}  // namespace leeway
