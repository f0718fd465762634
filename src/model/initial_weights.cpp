#include "model/initial_weights.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "base/check.h"
#include "base/hash.h"
#include "base/rng.h"

namespace leeway {
namespace {

bool ends_with(const std::string& name, std::string_view ending) {
  return name.size() >= ending.size() &&
         name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

double deviation_of(const Parameter& parameter, const ModelShape& shape) {
  const bool writes_residual =
      ends_with(parameter.name, "attention.out.weight") || ends_with(parameter.name, "down.weight");
  return writes_residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(shape.layers)) : 0.02;
}

}  // namespace

void fill_initial_weights(const at::Tensor& flat, const ModelShape& shape,
                          const ParameterLayout& layout, uint64_t seed) {
  LEEWAY_CHECK(flat.is_cpu() && flat.numel() == parameter_count(layout),
               "the buffer is on the CPU and as long as the layout");
  for (const Parameter& parameter : layout) {
    const at::Tensor values = flat.narrow(0, parameter.offset, parameter.count());
    if (parameter.kind == ParameterKind::kVector) {
      values.fill_(ends_with(parameter.name, ".bias") ? 0.0 : 1.0);
      continue;
    }
    const RandomKey key{seed, Stream::kWeights, hash_text(parameter.name)};
    const double deviation = deviation_of(parameter, shape);
    AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "fill_initial_weights", [&] {
      auto* out = values.data_ptr<scalar_t>();
      at::parallel_for(0, values.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          // Rounded to fp32 first: fp64 tests start from the same values as fp32 runs.
          out[i] = static_cast<float>(deviation * random_normal(key, static_cast<uint64_t>(i)));
        }
      });
    });
  }
}

}  // namespace leeway
