// The arithmetic of one worker: its stage, and the tokens that the first and the last stage read.
// No decisions: what comes next is the worker's.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "compute/averaging_compute.h"
#include "compute/evaluation_batches.h"
#include "compute/stage_reports.h"
#include "data/sampler.h"
#include "data/token_file.h"
#include "optim/rate_schedule.h"
#include "pipeline/stage.h"

namespace leeway {

// `tentative`: how a stage guesses the weights that a late forward's gradient will meet.
struct TentativeOptions {
  int64_t warmup = 0;   // W_s; 0: this stage is never late
  int64_t refresh = 0;  // guesses per update; 0: another look-ahead
};

struct StageComputeOptions {
  WorkerId worker;
  StageOptions stage;
  SamplerOptions sampler;
  RateScheduleOptions schedule;
  int64_t update_every = 1;
  double clip = 0;  // of the whole model's gradients; 0: none
  int64_t model_parameters = 0;
  int64_t delay_max = 0;  // tau_s, for the discount
  TentativeOptions tentative;
  int64_t discount_updates = 0;    // lr_discount: updates over which it fades; 0: none
  int64_t predict_every = 0;       // updates between two looks at the prediction; 0: none
  int64_t evaluate_windows = 0;    // 0: all
  bool saves_last_update = false;  // some stage of this run looks ahead
  std::vector<LaneOptions> lanes = {};
};

// The name of the last update among the buffers of a checkpoint.
inline constexpr const char* kLastUpdate = "last_update";

class StageCompute {
 public:
  // Token files outlive this. `valid` null: nothing to validate on.
  StageCompute(const StageComputeOptions& options, const TokenFile& train, const TokenFile* valid);

  // First stage: reads its tokens, `activation` is not looked at. Last stage: reads the targets,
  // keeps the loss, returns nothing.
  at::Tensor forward(MicrobatchId m, int64_t delay, const at::Tensor& activation);
  // Returns the gradient for the stage before; nothing at the first stage.
  at::Tensor backward(MicrobatchId m, const at::Tensor& gradient);

  // Squared norms of this update's gradients, one per parameter: fp64, on the CPU.
  at::Tensor gradient_norms();
  // `total_norm`: squared, of the whole model; none: this stage clips by its own norm.
  StageUpdate update(std::optional<double> total_norm);
  // What came out of the last look at the look-ahead, once.
  std::optional<Prediction> take_prediction();

  // Rounds, but for what an averaged gradient means to this update's norms.
  AveragingCompute& averaging() { return averaging_; }
  const AveragingCompute& averaging() const { return averaging_; }
  RoundNorms merge(Lane lane, int64_t round, int64_t chunk, const at::Tensor& answer,
                   bool contributed);
  // Whether a payload can be a chunk's, or a copy for evaluation.
  bool fits(Lane lane, int64_t round, int64_t chunk, const at::Tensor& payload) const;

  // What replica 0 gets of the weights as they are now.
  at::Tensor copy_for_evaluation() const;
  // Holds the mean of the replicas' copies, in their order, until the evaluation ends.
  void hold_for_evaluation(int64_t update, const std::vector<at::Tensor>& copies);
  // Batch `index` of the validation data through the weights held for `update`. The last stage
  // returns nothing, and after the last batch the evaluation.
  at::Tensor evaluate(int64_t update, int64_t index, const at::Tensor& activation);
  StageEvaluation end_evaluation(int64_t update);  // lets go of the weights

  StageState state() const;  // a copy, on the CPU
  // Weights and optimizer buffers of this stage alone.
  Status restore(const at::Tensor& weights, const Optimizer::State& state);

  size_t buffer_count() const;  // of a state
  const Stage& stage() const { return stage_; }

 private:
  bool is_first() const { return options_.stage.slice.embeds; }
  bool is_last() const { return options_.stage.slice.heads; }
  double rate_factor_now() const;
  Ahead look_ahead(int64_t delay);
  double own_clip_scale(double squared_norm) const;
  EvaluationOptions evaluation_options() const;

  StageComputeOptions options_;
  const TokenFile& train_;
  const TokenFile* valid_;
  Stage stage_;
  AveragingCompute averaging_;
  int64_t accumulated_ = 0;         // microbatches in the gradients as they are now
  at::Tensor norms_;                // of the gradients as they are now; undefined: not taken yet
  std::vector<at::Tensor> losses_;  // of this update's microbatches, on the device

  struct Held {
    std::shared_ptr<const Version> version;
    double loss_sum = 0;
    int64_t tokens = 0;
    int64_t windows = 0;
  };
  std::map<int64_t, Held> held_;  // by update
};

}  // namespace leeway
