// A model read back from a run folder, for evaluation and generation.
#pragma once

#include <memory>

#include "base/files.h"
#include "base/result.h"
#include "checkpoint/saved_run.h"
#include "compute/batches.h"
#include "model/stage_model.h"
#include "tokenizers/tokenizer.h"

namespace leeway {

class TrainedModel {
 public:
  // `run`: a run folder (its latest checkpoint is used), or one of its checkpoints.
  static Result<TrainedModel> load(const Path& run, const at::Device& device);

  at::Tensor loss(const Batch& batch) const;  // the mean
  // ids [batch, time] -> logits [batch * time, vocabulary]
  at::Tensor logits(const at::Tensor& ids) const;

  const ModelShape& shape() const { return model_->shape(); }
  const RunCounters& counters() const { return counters_; }
  const Path& run_folder() const { return run_folder_; }
  const Path& checkpoint() const { return checkpoint_; }
  const std::string& note() const { return note_; }  // why it is not the newest; empty: it is
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }  // null: foreign token file

 private:
  TrainedModel() = default;
  std::unique_ptr<StageModel> model_;
  StageViews views_;
  RunCounters counters_;
  Path run_folder_;
  Path checkpoint_;
  std::string note_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace leeway
