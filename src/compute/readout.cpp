#include "compute/readout.h"

#include "base/check.h"

namespace leeway {

Readout::Readout(const at::Tensor& numbers) : numbers_(numbers) {
  LEEWAY_CHECK(numbers.scalar_type() == at::kDouble && numbers.dim() == 1, "fp64, one dimension");
  if (numbers.is_cpu()) return;
  // Into pinned memory: a copy to any other would wait.
  const auto options = at::TensorOptions().dtype(at::kDouble).pinned_memory(true);
  numbers_ = at::empty({numbers.numel()}, options);
  numbers_.copy_(numbers, /*non_blocking=*/true);
  arrived_ = moment_after(numbers);
}

double Readout::at(int64_t index) const {
  LEEWAY_CHECK(index >= 0 && index < count(), "one of the numbers");
  if (arrived_) arrived_->synchronize();
  return numbers_.const_data_ptr<double>()[index];
}

}  // namespace leeway
