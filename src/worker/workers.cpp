#include "worker/workers.h"

namespace leeway {

Workers make_workers_without_compute(const RunPlan& plan) {
  Workers workers;
  for (int64_t i = 0; i < plan.shape.stages * plan.replicas; ++i) {
    const WorkerId id = {.replica = {i / plan.shape.stages}, .stage = {i % plan.shape.stages}};
    workers.push_back(std::make_unique<Worker>(id, plan, nullptr));
  }
  return workers;
}

std::vector<Worker*> pointers_to(const Workers& workers) {
  std::vector<Worker*> pointers;
  for (const auto& worker : workers) pointers.push_back(worker.get());
  return pointers;
}

}  // namespace leeway
