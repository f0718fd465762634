// The arithmetic of one worker: its stage, and the tokens that the first and the last stage read.
// Makes no decisions: the worker chooses what comes next.
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
#include "compute/late_reports.h"
#include "compute/stage_reports.h"
#include "compute/stage_wire.h"
#include "data/sampler.h"
#include "data/token_file.h"
#include "kernels/norms.h"
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
  double clip = 0;  // limit on the whole model's gradient norm; 0: no clipping
  // Whose norm that is the limit of, where stages do not wait for each other's: the model's, or
  // this stage's alone.
  int64_t clip_parameters = 0;
  TentativeOptions tentative;
  WireFormat wire = WireFormat::kF32;  // of activations and their gradients
  int64_t predict_every = 0;           // updates between two prediction samples; 0: none
  int64_t evaluate_windows = 0;        // 0: all
  bool saves_last_update = false;      // some stage of this run looks ahead
  std::vector<LaneOptions> lanes = {};
};

// The last update's name among a checkpoint's buffers.
inline constexpr const char* kLastUpdate = "last_update";

class StageCompute {
 public:
  // The token files must outlive this object. `valid` null: no validation data.
  StageCompute(const StageComputeOptions& options, const TokenFile& train, const TokenFile* valid);

  // Takes and returns payloads. First stage: reads its tokens, ignores `activation`. Last stage:
  // reads the targets, keeps the loss, returns nothing.
  at::Tensor forward(MicrobatchId m, int64_t delay, const at::Tensor& activation);
  // Returns the gradient for the previous stage; nothing at the first stage.
  at::Tensor backward(MicrobatchId m, const at::Tensor& gradient);

  // Squared norms of this update's gradients, one per parameter: fp64, on the device.
  at::Tensor gradient_norms();
  // `total_norm`: the whole model's squared norm, fp64 [1]; undefined: this stage clips by its own.
  // An update that must not be made (the loss or the gradients are not finite) leaves the weights
  // as they are; on the CPU it does not count as one.
  LateUpdate update(const at::Tensor& total_norm);
  // The result of the last prediction sample, returned once.
  std::optional<LatePrediction> take_prediction();

  // For everything in a round except merging: use merge() below, because averaged gradients change
  // this update's norms.
  AveragingCompute& averaging() { return averaging_; }
  const AveragingCompute& averaging() const { return averaging_; }
  LateNorms merge(Lane lane, int64_t round, int64_t chunk, const at::Tensor& answer);
  // Whether a payload can be a chunk's, or a copy for evaluation.
  bool fits(Lane lane, int64_t round, int64_t chunk, const at::Tensor& payload) const;

  // Whether a payload can be what a microbatch sends forward or back.
  bool fits_activation(const at::Tensor& payload) const { return wire_.fits(payload); }
  // Likewise of validation data, which is sent as it is computed; its last batch may be smaller.
  bool fits_evaluation(const at::Tensor& payload) const;

  // What is evaluated and exported: the common model if there is one, else the weights.
  at::Tensor model() const;
  uint64_t model_hash() const;  // as in StageState
  // The model as it is now, for one replica to average; fp32 may be rounded to bf16.
  at::Tensor copy_for_evaluation(bool rounded) const;
  // Holds the mean of the replicas' copies, added in their order, until the evaluation ends.
  void hold_for_evaluation(int64_t update, const std::vector<at::Tensor>& copies);
  // Batch `index` of the validation data through the weights held for `update`. The last stage adds
  // up the loss and returns nothing.
  at::Tensor evaluate(int64_t update, int64_t index, const at::Tensor& activation);
  StageEvaluation end_evaluation(int64_t update);  // releases the weights
  void forget_evaluations(int64_t update);         // up to this one: they are given up

  StageState state() const;  // a copy, on the CPU
  // Takes over a state that another worker of this stage had, or this one earlier, in a fleet that
  // has gone on since. It may come from the network: an error says what does not fit.
  Status take_over(const StageState& state);
  // Drops what is in flight, and goes on as a newcomer after `updates` updates.
  void restart(int64_t updates);
  int64_t state_bytes() const;  // of a state as bytes, at most

  // Weights and optimizer buffers of this stage alone.
  Status restore(const at::Tensor& weights, const Optimizer::State& state);

  size_t buffer_count() const;  // in a state
  const Stage& stage() const { return stage_; }

 private:
  bool is_first() const { return options_.stage.slice.embeds; }
  bool is_last() const { return options_.stage.slice.heads; }
  double rate_factor_now() const;
  Ahead look_ahead(int64_t delay);
  double own_clip() const;
  EvaluationOptions evaluation_options() const;

  StageComputeOptions options_;
  const TokenFile& train_;
  const TokenFile* valid_;
  Stage stage_;
  StageWire wire_;
  AveragingCompute averaging_;
  int64_t accumulated_ = 0;  // microbatches in the current gradients
  ParameterNorms parameter_norms_;
  at::Tensor norms_;                // the current gradients'; undefined: not computed yet
  at::Tensor gate_;                 // of the updates, kernels/gate.h
  at::Tensor guess_gate_;           // of the guesses
  std::vector<at::Tensor> losses_;  // one per microbatch of this update, on the device

  struct Held {
    std::shared_ptr<const Version> version;
    at::Tensor loss_sum = {};  // fp64, on the device
    int64_t tokens = 0;
    int64_t windows = 0;
  };
  std::map<int64_t, Held> held_;  // by update
};

}  // namespace leeway
