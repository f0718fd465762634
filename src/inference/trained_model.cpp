#include "inference/trained_model.h"

#include <fmt/format.h>

#include "checkpoint/checkpoint_folder.h"

namespace leeway {

Result<TrainedModel> TrainedModel::load(const Path& run, const at::Device& device) {
  std::error_code code;
  const Path folder = std::filesystem::canonical(run, code);  // also strips a trailing slash
  if (code || !std::filesystem::is_directory(folder, code)) {
    return usage_error(fmt::format(
        "{} is not a run folder; name one that `leeway train --out` wrote", run.string()));
  }
  TrainedModel trained;
  if (checkpoint_update(folder)) {
    trained.checkpoint_ = folder;
    trained.run_folder_ = folder.parent_path().parent_path();
  } else {
    trained.run_folder_ = run;
    LEEWAY_ASSIGN(trained.checkpoint_, latest_checkpoint(run / "checkpoints"));
    const std::vector<Path> all = named_checkpoints(run / "checkpoints");
    if (all.back().filename() != trained.checkpoint_.filename()) {
      trained.note_ = fmt::format("{} is damaged; this is {}", all.back().string(),
                                  trained.checkpoint_.filename().string());
    }
  }
  LEEWAY_ASSIGN(SavedRun saved, load_run(trained.checkpoint_, /*with_optimizer=*/false));
  const at::Tensor flat = saved.state.weights.to(device);
  trained.model_ =
      std::make_unique<StageModel>(saved.shape, whole_model(saved.shape), flat.options());
  trained.views_ = trained.model_->view(flat);
  trained.counters_ = saved.counters;
  const Path tokenizer = trained.run_folder_ / "tokenizer";
  if (std::filesystem::is_directory(tokenizer, code)) {
    LEEWAY_ASSIGN(trained.tokenizer_, load_tokenizer("saved:" + tokenizer.string()));
    if (trained.tokenizer_->hash() != saved.counters.tokenizer_hash) {
      return Error{fmt::format(
          "the tokenizer in {} is not the one that {} was trained with; restore the original",
          tokenizer.string(), trained.checkpoint_.string())};
    }
  }
  return trained;
}

at::Tensor TrainedModel::loss(const Batch& batch) const {
  return model_->loss(views_, batch.inputs, batch.targets);
}

at::Tensor TrainedModel::logits(const at::Tensor& ids) const { return model_->logits(views_, ids); }

}  // namespace leeway
