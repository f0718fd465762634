// Runs the model as the golden tests ask: `model_probe JOB.json`. The job names a shape (or a
// Hugging Face folder), weights, tokens and what to do; the results go to a safetensors file.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "checkpoint/safetensors.h"
#include "kernels/clip.h"
#include "model/hugging_face.h"
#include "pipeline/stage.h"

namespace leeway {
namespace {

using Json = nlohmann::json;
using Tensors = std::map<std::string, at::Tensor>;

at::ScalarType dtype_of(const std::string& word) {
  if (word == "float64") return at::kDouble;
  if (word == "bfloat16") return at::kBFloat16;
  LEEWAY_CHECK(word == "float32", "a job computes in float64, float32 or bfloat16");
  return at::kFloat;
}

ModelShape shape_of(const Json& job) {
  const std::map<std::string, Activation> mlps = {
      {"swiglu", Activation::kSwiglu}, {"gelu", Activation::kGelu}, {"relu", Activation::kRelu}};
  return {.architecture =
              job.at("architecture") == "llama" ? Architecture::kLlama : Architecture::kGpt2,
          .activation = mlps.at(job.at("activation")),
          .bias = job.at("bias"),
          .layers = job.at("layers"),
          .width = job.at("width"),
          .heads = job.at("heads"),
          .kv_heads = job.at("kv_heads"),
          .hidden = job.at("hidden"),
          .context = job.at("context"),
          .vocabulary = job.at("vocabulary")};
}

UpdateOptions update_of(const Json& job) {
  const std::map<std::string, UpdateRule> rules = {{"muon", UpdateRule::kMuon},
                                                   {"adamw", UpdateRule::kAdamW},
                                                   {"nadamw", UpdateRule::kNAdamW},
                                                   {"sgd", UpdateRule::kSgd}};
  return {.rule = rules.at(job.at("rule")),
          .rate = job.at("rate"),
          .matrix_rate = job.at("matrix_rate"),
          .beta1 = job.at("beta1"),
          .beta2 = job.at("beta2"),
          .epsilon = job.at("epsilon"),
          .decay = job.at("decay"),
          .nesterov = job.at("nesterov")};
}

Tensors read_tensors(const Path& path) {
  Tensors tensors;
  TensorFile file = read_safetensors(path).value();
  for (NamedTensor& entry : file.tensors) tensors[entry.name] = std::move(entry.tensor);
  return tensors;
}

// One replica, its stages run one after the other.
class Pipeline {
 public:
  Pipeline(const ModelShape& shape, const Json& job) {
    for (const StageSlice& slice : cut_into_stages(shape, job.value("stages", 1))) {
      StageOptions options = {.shape = shape, .slice = slice, .update = {}};
      options.master = dtype_of(job.at("master"));
      options.compute = dtype_of(job.at("compute"));
      if (job.contains("optimizer")) options.update = update_of(job.at("optimizer"));
      stages_.push_back(std::make_unique<Stage>(options));
    }
  }

  // Weights have our own names.
  void load(const Tensors& weights) {
    for (const auto& stage : stages_) {
      const at::Tensor flat = at::empty_like(stage->weights());
      for (const Parameter& p : stage->model().layout()) {
        flat.narrow(0, p.offset, p.count()).copy_(weights.at(p.name).reshape({-1}));
      }
      stage->load_weights(flat);
    }
  }
  void load_hugging_face(const Tensors& weights) {
    for (const auto& stage : stages_) {
      const at::Tensor flat = at::empty_like(stage->weights());
      const StageModel& model = stage->model();
      const Status status = from_hugging_face(model.shape(), model.slice(), weights, flat);
      LEEWAY_CHECK(status.ok(), status.error().message);
      stage->load_weights(flat);
    }
  }

  at::Tensor logits(const at::Tensor& ids) const {
    at::Tensor x = ids;
    for (const auto& stage : stages_) {
      const auto version = stage->hold_copy(stage->weights());
      if (stage == stages_.back()) return stage->model().logits(version->views, x);
      x = stage->evaluate(*version, x);
    }
    LEEWAY_UNREACHABLE("there is a last stage");
  }

  // Forward and backward of one microbatch; returns its loss.
  double run(MicrobatchId m, const at::Tensor& ids, const at::Tensor& targets, double scale) {
    at::Tensor x = ids;
    for (size_t s = 0; s + 1 < stages_.size(); ++s) x = stages_[s]->forward(m, {}, x);
    stages_.back()->forward_to_head(m, {}, x, targets, scale);
    const auto [top, loss] = stages_.back()->backward_from_loss(m);
    at::Tensor dx = top;
    for (size_t s = stages_.size() - 1; s-- > 0;) dx = stages_[s]->backward(m, dx);
    return loss.item<double>();
  }

  void update(double rate_factor, double clip) {
    double squared = 0;
    for (const auto& stage : stages_)
      squared += stage->gradients().to(at::kDouble).square().sum().item<double>();
    for (const auto& stage : stages_) stage->update(rate_factor, clip_scale(squared, clip));
  }

  void collect(const std::string& prefix, const at::Tensor& (Stage::*buffer)() const,
               TensorFile& out) const {
    for (const auto& stage : stages_) {
      for (const Parameter& p : stage->model().layout()) {
        out.tensors.push_back(
            {prefix + p.name,
             ((*stage).*buffer)().narrow(0, p.offset, p.count()).clone().view({p.rows, p.cols})});
      }
    }
  }

  Status write_hugging_face(const Path& folder, const std::string& dtype) const {
    TensorFile file = {.tensors = {}, .metadata = {{"format", "pt"}}};
    for (const auto& stage : stages_) {
      const StageModel& model = stage->model();
      for (auto& [name, tensor] : to_hugging_face(model.shape(), model.slice(), stage->weights())) {
        file.tensors.push_back({name, tensor});
      }
    }
    LEEWAY_TRY(make_folder(folder));
    LEEWAY_TRY(write_safetensors(folder / "model.safetensors", file));
    return write_atomically(folder / "config.json",
                            hugging_face_config(stages_.front()->model().shape(), dtype));
  }

 private:
  std::vector<std::unique_ptr<Stage>> stages_;
};

// ids and targets are [updates, microbatches per update, batch, time].
void train(Pipeline& pipeline, const Json& job, const Tensors& inputs, TensorFile& out) {
  const at::Tensor& ids = inputs.at("ids");
  const at::Tensor& targets = inputs.at("targets");
  const at::Tensor losses = at::zeros({ids.size(0)}, at::kDouble);
  for (int64_t n = 0; n < ids.size(0); ++n) {
    const double share = 1.0 / static_cast<double>(ids.size(1));
    for (int64_t i = 0; i < ids.size(1); ++i) {
      losses[n] += share * pipeline.run({n * ids.size(1) + i}, ids[n][i], targets[n][i], share);
    }
    pipeline.update(job.at("rate_factors").at(static_cast<size_t>(n)), job.value("clip", 0.0));
  }
  out.tensors.push_back({"losses", losses});
  pipeline.collect("weight/", &Stage::weights, out);
}

Status run_job(const Path& path) {
  LEEWAY_ASSIGN(const std::string text, read_text(path));
  const Json job = Json::parse(text);
  const Tensors inputs = read_tensors(job.at("inputs").get<std::string>());
  TensorFile out;
  if (job.contains("open")) {
    const Path folder = job.at("open").get<std::string>();
    LEEWAY_ASSIGN(const std::string config, read_text(folder / "config.json"));
    LEEWAY_ASSIGN(const ModelShape shape, shape_from_hugging_face_config(config));
    Pipeline pipeline(shape, job);
    pipeline.load_hugging_face(read_tensors(folder / "model.safetensors"));
    out.tensors.push_back({"logits", pipeline.logits(inputs.at("ids"))});
    return write_safetensors(job.at("out").get<std::string>(), out);
  }
  Pipeline pipeline(shape_of(job.at("shape")), job);
  pipeline.load(inputs);
  if (job.contains("rate_factors")) {
    train(pipeline, job, inputs, out);
  } else {
    out.tensors.push_back({"logits", pipeline.logits(inputs.at("ids"))});
    const double loss = pipeline.run({0}, inputs.at("ids"), inputs.at("targets"), 1.0);
    out.tensors.push_back({"loss", at::scalar_tensor(loss, at::kDouble)});
    pipeline.collect("gradient/", &Stage::gradients, out);
  }
  if (job.contains("export")) {
    LEEWAY_TRY(pipeline.write_hugging_face(job.at("export").get<std::string>(), job.at("master")));
  }
  return write_safetensors(job.at("out").get<std::string>(), out);
}

}  // namespace
}  // namespace leeway

int main(int argc, char** argv) {
  LEEWAY_CHECK(argc == 2, "usage: model_probe JOB.json");
  const leeway::Status status = leeway::run_job(argv[1]);
  if (status.ok()) return 0;
  fmt::print(stderr, "model_probe: {}\n", status.error().message);
  return 1;
}
