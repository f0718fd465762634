// An optimizer over a stage's flat buffers: AdamW, NAdamW, SGD and Muon as one pass per update.
//
// With m <- b1 m + (1-b1) g and d the rule's direction from g and m (direction.h):
//   AdamW, NAdamW  w <- (1 - rate decay) w - rate d / (sqrt(v / (1-b2^t)) + epsilon)
//   SGD            w <- (1 - rate decay) w - rate d; as torch.optim.SGD(rate (1-b1), momentum b1)
//   Muon           w <- (1 - matrix_rate decay) w - matrix_rate sqrt(max(1, rows/cols)) ortho(d)
//                  for matrices; AdamW with `rate` and the same beta1 for everything else
// With a gradient_share k (the `matched` look-ahead) d is k g + (1-k) m / (1-b1^t); not in NAdamW.
// Where replicas average steps, v has `replicas` times the noise that the mean gradient's second
// moment has. With `replicas` above 1, s + (v - s) / replicas takes v's place, where s is what of v
// is not noise: min(v, the square of the bias-corrected momentum).
// Weight decay is decoupled from the gradient in every rule, and skips norms and biases.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/parameters.h"
#include "base/result.h"
#include "config/choices.h"
#include "kernels/update.h"
#include "optim/direction.h"
#include "optim/muon.h"

namespace leeway {

struct UpdateOptions {
  UpdateRule rule = UpdateRule::kMuon;
  double rate = 3e-3;
  double matrix_rate = 0.02;  // Muon's rate for matrices
  double beta1 = 0.95;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double decay = 0;
  bool nesterov = true;  // SGD, and Muon's matrices; AdamW's Nesterov form is kNAdamW
  std::optional<double> gradient_share = std::nullopt;  // unset: the rule's own form of d
  MomentType moments = MomentType::kF32;  // bf16: rounded by chance, beside fp32 weights
  uint64_t seed = 0;                      // of that chance
  int64_t replicas = 1;                   // whose mean gradient's second moment is wanted
};

struct UpdateArguments {
  at::Tensor weights;         // flat, fp32 or fp64: master weights, changed in place
  at::Tensor gradients;       // flat, same type: mean gradient, read only
  at::Tensor compute;         // flat fp32, bf16 or fp64: receives the new weights; may be undefined
  double rate_factor = 1;     // from the schedule
  double gradient_scale = 1;  // from clipping
  at::Tensor gate = {};       // kernels/gate.h: its scale too, and whether the update is made
};

class Optimizer {
 public:
  // `buffers`: type and device of weights and gradients, and of moments unless they are bf16.
  Optimizer(const UpdateOptions& options, const ParameterLayout& layout,
            const at::TensorOptions& buffers);

  // One pass. On the CPU it does not allocate (Muon reuses its scratch), and elementwise rules give
  // the same bits for any number of threads.
  void update(const UpdateArguments& arguments);

  // Writes the weights that update() would produce to `compute`, and nothing else.
  void preview(const UpdateArguments& arguments);

  int64_t updates_done() const { return updates_; }

  // What a checkpoint saves. The buffers are live: writing into them changes the state.
  struct State {
    std::vector<std::pair<std::string, at::Tensor>> buffers;  // "momentum", "variance": flat
    int64_t updates = 0;
    double momentum_product = 1;  // NAdamW's mu_1 * ... * mu_updates
  };
  State state() const;

  // The values stored with the buffers, as read from a file. Rejects what no run can produce.
  Status restore(int64_t updates, double momentum_product);

  int64_t state_bytes() const;  // size of the moments

 private:
  void check(const UpdateArguments& arguments) const;
  Direction element_direction() const;
  Direction matrix_direction() const;
  StepConstants element_constants(double rate, double gradient_scale) const;
  StepConstants matrix_constants(double rate, double gradient_scale) const;
  void count_update();
  uint64_t rounding() const;
  void run(const UpdateArguments& arguments, const PassTensors& tensors);

  UpdateOptions options_;
  at::ScalarType type_;  // of weights and gradients
  int64_t parameter_count_ = 0;
  UpdatePieces elements_;
  MatrixPass matrix_pass_;
  at::Tensor momentum_;
  at::Tensor variance_;  // undefined for SGD
  int64_t updates_ = 0;
  double momentum_product_ = 1;
};

}  // namespace leeway
