#include "kernels/gate.h"

#include "base/check.h"
#include "kernels/cuda_glue.h"
#if LEEWAY_CUDA
#include "kernels/update_cuda.h"
#endif

namespace leeway {
namespace {

double ordered_sum(const at::Tensor& numbers) {
  const double* const values = numbers.const_data_ptr<double>();
  double sum = 0;
  for (int64_t i = 0; i < numbers.numel(); ++i) sum += values[i];
  return sum;
}

double mean_loss(const at::Tensor& losses) {
  if (!losses.defined()) return 0;
  const at::Tensor wide = losses.to(at::kDouble);
  const double* const values = wide.const_data_ptr<double>();
  double mean = 0;
  for (int64_t i = 0; i < wide.numel(); ++i) mean += values[i] / static_cast<double>(wide.numel());
  return mean;
}

}  // namespace

at::Tensor make_gate(const at::Device& device) {
  return at::ones({kGateFields}, at::TensorOptions().dtype(at::kDouble).device(device));
}

void set_gate(const GateArguments& arguments, const at::Tensor& gate) {
  LEEWAY_CHECK(arguments.norms.scalar_type() == at::kDouble, "norms are fp64");
  if (is_on_gpu(gate)) {
    LEEWAY_CUDA_TWIN({
      const auto& [norms, total, losses, clip, factor] = arguments;
      LEEWAY_CHECK(!losses.defined() || losses.scalar_type() == at::kFloat, "losses are fp32");
      cuda::set_gate({.norms = norms.const_data_ptr<double>(),
                      .norm_count = norms.numel(),
                      .total = total.defined() ? total.const_data_ptr<double>() : nullptr,
                      .losses = losses.defined() ? losses.const_data_ptr<float>() : nullptr,
                      .loss_count = losses.defined() ? losses.numel() : 0,
                      .clip = clip,
                      .factor = factor,
                      .gate = gate.mutable_data_ptr<double>()},
                     CudaScope(gate).stream());
    });
    return;
  }
  const double norm = ordered_sum(arguments.norms);
  fill_gate({.norm = norm,
             .total = arguments.total.defined() ? arguments.total.item<double>() : norm,
             .loss = mean_loss(arguments.losses),
             .clip = arguments.clip,
             .factor = arguments.factor},
            gate.mutable_data_ptr<double>());
}

at::Tensor sum_in_order(const std::vector<at::Tensor>& numbers) {
  const at::Tensor all = numbers.size() == 1 ? numbers.front() : at::cat(numbers);
  at::Tensor total = at::empty({1}, all.options());
  if (is_on_gpu(all)) {
    LEEWAY_CUDA_TWIN(cuda::sum_in_order(all.const_data_ptr<double>(), all.numel(),
                                        total.mutable_data_ptr<double>(), CudaScope(all).stream()));
    return total;
  }
  total.fill_(ordered_sum(all));
  return total;
}

}  // namespace leeway
