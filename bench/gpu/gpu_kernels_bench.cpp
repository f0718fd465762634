// Speed of single kernels on a GPU: bytes per second beside those of a copy, and the attention
// kernels that LibTorch has.
#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "attention_rows.h"
#include "kernel_rows.h"
#include "kernels/gate.h"
#include "kernels/loss.h"
#include "kernels/norms.h"
#include "kernels/update.h"

namespace leeway {
namespace {

// Median of ten, after three to warm up.
double milliseconds(const std::function<void()>& work) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(at::kCUDA).getStream(kGpu);
  std::vector<double> times;
  for (int i = 0; i < 13; ++i) {
    c10::Event begin(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
    c10::Event end(at::kCUDA, c10::EventFlag::BACKEND_DEFAULT);
    begin.record(stream);
    work();
    end.record(stream);
    end.synchronize();
    if (i >= 3) times.push_back(begin.elapsedTime(end));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double copy_speed() {
  const at::Tensor from = at::randn({1 << 29}, of(at::kFloat));
  const at::Tensor to = at::empty_like(from);
  return 2.0 * static_cast<double>(from.nbytes()) / milliseconds([&] { to.copy_(from); });
}

void print_speeds(const std::vector<Row>& rows, double copy) {
  fmt::print("{:<34} {:>9} {:>9} {:>14}\n", "kernel", "ms", "GB/s", "share of copy");
  fmt::print("{:<34} {:>9} {:>9.0f} {:>14}\n", "copy", "", copy / 1e6, "1.00");
  for (const Row& row : rows) {
    const double time = milliseconds(row.work);
    const double speed = row.bytes / time;
    fmt::print("{:<34} {:>9.3f} {:>9.0f} {:>14.2f}\n", row.name, time, speed / 1e6, speed / copy);
  }
}

std::vector<Row> update_rows() {
  constexpr double kCount = kParameters;
  const PassTensors tensors = {flat(), flat(), flat(), flat().abs_(),
                               at::empty({kParameters}, of(at::kBFloat16))};
  PassTensors preview = tensors;
  preview.preview = true;
  const UpdatePieces pieces({{0, kParameters, true}}, kGpu);
  const StepConstants constants = {.momentum_share = 0.1,
                                   .variance_keep = 0.999,
                                   .weight_keep = 0.999,
                                   .momentum_part = 1e-6,
                                   .epsilon = 1e-8};
  ParameterLayout layout;
  for (int64_t i = 0; i < 148; ++i) {
    layout.push_back(
        {std::to_string(i), ParameterKind::kVector, i * (kParameters / 148), 1, kParameters / 148});
  }
  const at::Tensor whole = tensors.gradients.narrow(0, 0, parameter_count(layout));
  const ParameterNorms norms(layout, kGpu);
  const at::Tensor directions = at::empty({kParameters}, of(at::kBFloat16));
  return {{"AdamW, one pass", 30 * kCount, [=] { element_pass(pieces, constants, tensors); }},
          {"a guess at it", 18 * kCount, [=] { element_pass(pieces, constants, preview); }},
          {"Muon, directions", 14 * kCount,
           [=] { direction_pass(pieces, constants, tensors, directions); }},
          {"Muon, steps", 12 * kCount, [=] { apply_pass(pieces, 1, 1e-6, tensors, directions); }},
          {"norms of all parameters", 4 * kCount, [=] { norms.squares(whole); }}};
}

Row loss_row() {
  constexpr int64_t kRows = 32768, kColumns = 50304, kVocabulary = 50257;
  const at::Tensor logits = at::randn({kRows, kColumns}, of(at::kBFloat16));
  const at::Tensor targets = at::randint(kVocabulary, {kRows}, of(at::kLong));
  return {"loss and its gradient", 4.0 * kRows * kColumns, [=] {
            row_gradients(logits, targets, {.share = 1.0 / kRows, .vocabulary = kVocabulary});
          }};
}

void run() {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  const double copy = copy_speed();
  print_speeds(update_rows(), copy);
  print_speeds({loss_row()}, copy);
  print_speeds(layer_rows(), copy);
  print_speeds(averaging_rows(), copy);
  print_speeds(lowbit_rows(), copy);
  fmt::print("\n{:<34} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
             "attention, ms (batch x heads x time)", "flash", "back", "cudnn", "back", "differ",
             "back", "mixed");
  for (const AttentionShape& shape : {AttentionShape{32, 12, 1024, 64},
                                      {4, 12, 1024, 64},
                                      {8, 16, 1024, 128},
                                      {8, 32, 1024, 64}}) {
    print_attention(shape, milliseconds);
  }
}

}  // namespace
}  // namespace leeway

int main() {
  if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0) {
    fmt::print(stderr, "gpu_kernels_bench needs a GPU\n");
    return 1;
  }
  leeway::run();
}
