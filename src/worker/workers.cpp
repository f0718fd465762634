#include "worker/workers.h"

namespace leeway {

Workers make_workers_without_compute(const RunPlan& plan) {
  Workers workers;
  for (size_t at = 0; at < plan.mesh().count(); ++at) {
    workers.push_back(std::make_unique<Worker>(plan.mesh().id(at), plan, nullptr));
  }
  return workers;
}

std::vector<Worker*> pointers_to(const Workers& workers) {
  std::vector<Worker*> pointers;
  for (const auto& worker : workers) pointers.push_back(worker.get());
  return pointers;
}

}  // namespace leeway
