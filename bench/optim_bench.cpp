// How close the AdamW pass comes to memory speed: bytes per second of the pass against a plain copy
// that reads and writes as many bytes, with the same threads, in the same run.
//
//   optim_bench [million parameters, 64 if not given]
//
// prints, for example
//   pass                     GB/s  copy GB/s  ratio  peak MB
//   AdamW, fp32 copy         22.7       13.7   1.66     1644
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "measure.h"
#include "optim/optimizer.h"

namespace {

constexpr int kRounds = 7;
constexpr int kCopies = 4;  // of one flat buffer: as many bytes as AdamW with an fp32 copy

struct Case {
  const char* name;
  leeway::UpdateRule rule;
  at::ScalarType compute;  // Undefined: no compute copy
};

void run_case(const Case& test, int64_t count) {
  const leeway::ParameterLayout layout = {
      {"embedding", leeway::ParameterKind::kEmbedding, 0, count / 1024, 1024}};
  const at::TensorOptions options = at::TensorOptions().dtype(at::kFloat);
  leeway::Optimizer optimizer({.rule = test.rule, .decay = 0.1}, layout, options);
  const at::Tensor weights = at::randn({count}, options);
  const at::Tensor gradients = at::randn({count}, options);
  const at::Tensor target = at::empty({count}, options);
  at::Tensor compute;
  if (test.compute != at::ScalarType::Undefined) {
    compute = at::empty({count}, options.dtype(test.compute));
  }
  // Read: gradients, weights and moments. Written: weights, moments and the compute copy.
  const int64_t state = optimizer.state_bytes();
  const int64_t bytes = static_cast<int64_t>(3 * weights.nbytes()) + 2 * state +
                        (compute.defined() ? static_cast<int64_t>(compute.nbytes()) : 0);

  std::vector<double> pass_rates;
  std::vector<double> copy_rates;
  for (int round = 0; round <= kRounds; ++round) {
    const double pass = leeway::seconds_of([&] {
      optimizer.update({.weights = weights, .gradients = gradients, .compute = compute});
    });
    const double copy = leeway::seconds_of([&] {
      for (int i = 0; i < kCopies; ++i) {
        leeway::plain_copy(gradients, target, static_cast<int64_t>(gradients.nbytes()));
      }
    });
    if (round == 0) continue;  // first touch of the pages
    pass_rates.push_back(static_cast<double>(bytes) / pass / 1e9);
    copy_rates.push_back(2.0 * kCopies * static_cast<double>(gradients.nbytes()) / copy / 1e9);
  }
  const double pass = leeway::median(pass_rates);
  const double copy = leeway::median(copy_rates);
  std::printf("%-22s %6.1f %10.1f %6.2f %8lld\n", test.name, pass, copy, pass / copy,
              static_cast<long long>(leeway::peak_megabytes()));
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t count = (argc > 1 ? std::atoll(argv[1]) : 64) * 1024 * 1024;
  std::printf("%lld parameters, %d threads\n", static_cast<long long>(count),
              at::get_num_threads());
  std::printf("%-22s %6s %10s %6s %8s\n", "pass", "GB/s", "copy GB/s", "ratio", "peak MB");
  run_case({"AdamW, fp32 copy", leeway::UpdateRule::kAdamW, at::kFloat}, count);
  run_case({"AdamW, bf16 copy", leeway::UpdateRule::kAdamW, at::kBFloat16}, count);
  run_case({"AdamW, no copy", leeway::UpdateRule::kAdamW, at::ScalarType::Undefined}, count);
  run_case({"SGD, fp32 copy", leeway::UpdateRule::kSgd, at::kFloat}, count);
  return 0;
}
