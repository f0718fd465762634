#include "run/local_crew.h"

#include "run/mesh_model.h"

namespace leeway {

Status LocalCrew::prepare(const SessionStart& start) {
  workers_ = make_workers(start.recipe, start.data, start.plan);
  if (start.state != nullptr) LEEWAY_TRY(restore(workers_, start.recipe, *start.state));
  for (const auto& worker : workers_) {
    if (start.evaluates_first) worker->evaluate_first();
  }
  driver_->fill_places(
      [recipe = start.recipe, data = start.data, &plan = start.plan](
          WorkerId id, const Entry& entry) { return make_worker(recipe, data, plan, id, entry); });
  return {};
}

Status LocalCrew::run(Recorder& recorder, ShardStore& shards) {
  return driver_->run(workers_, recorder, &shards);
}

}  // namespace leeway
