#include "drivers/threads/threads.h"

#include "drivers/loop/process.h"

namespace leeway::threads {

Status Threads::run(const Workers& workers, Recorder& recorder, ShardStore* shards) {
  Process process({.plan = workers.front()->plan(),
                   .workers = pointers_to(workers),
                   .journal = recorder,
                   .recorder = &recorder,
                   .clock = clock_,
                   .threads_per_worker = threads_per_worker_,
                   .shards = shards,
                   .planned = planned_,
                   .maker = maker_});
  recorder.begun(process.asker());
  process.run();
  return {};
}

}  // namespace leeway::threads
