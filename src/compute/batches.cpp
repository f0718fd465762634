#include "compute/batches.h"

#include <vector>

namespace leeway {

Batch read_windows(const TokenFile& tokens, int64_t context, std::span<const uint64_t> windows,
                   const at::Device& device) {
  const auto rows = static_cast<int64_t>(windows.size());
  const auto length = static_cast<size_t>(context) + 1;
  // Pinned, a copy to a GPU does not wait; and one copy brings inputs and targets.
  const at::TensorOptions host = at::TensorOptions().dtype(at::kLong);
  const at::Tensor ids =
      at::empty({rows, context + 1}, device.is_cpu() ? host : host.pinned_memory(true));
  for (size_t i = 0; i < windows.size(); ++i) {
    const std::span<int64_t> row(ids.data_ptr<int64_t>() + i * length, length);
    tokens.read(windows[i] * static_cast<uint64_t>(context), row);
  }
  const at::Tensor there = ids.to(device, /*non_blocking=*/true);
  return {there.narrow(1, 0, context).contiguous(), there.narrow(1, 1, context).contiguous()};
}

Batch read_microbatch(const TokenFile& tokens, int64_t context, const SamplerOptions& sampler,
                      MicrobatchId m, ReplicaId r, const at::Device& device) {
  std::vector<uint64_t> windows;
  for (int64_t i = 0; i < sampler.microbatch; ++i) windows.push_back(window_at(sampler, m, r, i));
  return read_windows(tokens, context, windows, device);
}

}  // namespace leeway
