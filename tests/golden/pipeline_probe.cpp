// Runs a whole pipeline as the golden tests ask: `pipeline_probe JOB.json`. The job has a recipe as
// TOML and as --set, a vocabulary, a number of tokens and a file name, and for the simulator the
// shares of messages that are lost or come twice; what the run started from, read and ended with
// goes to that safetensors file, so that an emulation can be compared with it:
//
//   initial/S/NAME, final/S/NAME    weights of stage S, under our names
//   momentum/S/NAME, variance/S/... what the optimizer ends with
//   saved/N/S/BUFFER                flat weights and optimizer buffers, saved at update N
//   ids, targets                    [microbatches, sequences, context]
//   losses                          of each update
//   warmups, horizons               of each stage
//   gradient_shares                 k of each stage; NaN: the optimizer's own form
//   forwards                        a row of stage, microbatch, version and delay for each
//   predictions                     a row of stage, update, delay and error for each
//
// With several replicas all of these except the stages' constants are replica/R/..., and there are
// also the coordinates of stage S that round K exchanges:
//
//   subset/S/K                      for sparse
//
// and what a common model's workers did, in the order that they did it:
//
//   rounds      a row of kind (0 contribute, 1 reduce, 2 merge), replica, update, chunk and number
//               for each, of stage 0
//   parts       a row of chunk, answer, replica and number for each contribution in an answer
//   chunks      how many values each has
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "../support/subsets.h"
#include "averaging/subset.h"
#include "base/files.h"
#include "base/rng.h"
#include "checkpoint/safetensors.h"
#include "compute/batches.h"
#include "config/load.h"
#include "drivers/sim/simulation.h"
#include "drivers/threads/threads.h"
#include "recipe/stage_options.h"
#include "run/mesh_model.h"

namespace leeway {
namespace {

using Json = nlohmann::json;

// A rule that a bigram model can learn (the next id is three times this one plus one), broken one
// time in four, so that no loss is ever small and no two windows are alike.
std::vector<TokenId> make_ids(uint64_t count, uint64_t vocabulary) {
  const RandomKey key = {.seed = 77, .stream = Stream::kSampler, .name = 0};
  std::vector<TokenId> ids;
  uint64_t last = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t bits = random_bits(key, i);
    last = bits % 4 == 0 ? (bits >> 8) % vocabulary : (3 * last + 1) % vocabulary;
    ids.push_back(static_cast<TokenId>(last));
  }
  return ids;
}

Result<TokenFile> make_tokens(const Path& path, uint64_t count, uint64_t vocabulary) {
  LEEWAY_ASSIGN(const auto tokenizer, load_tokenizer("bytes"));
  LEEWAY_ASSIGN(auto writer, TokenFileWriter::create(path, *tokenizer));
  LEEWAY_TRY(writer.append(make_ids(count, vocabulary)));
  LEEWAY_TRY(writer.commit(/*documents=*/1, /*text_bytes=*/count));
  return TokenFile::open(path);
}

// The prefix of a replica's tensors: "" if there is only one.
std::string prefix_of(const Recipe& recipe, ReplicaId replica) {
  return recipe.mesh.replicas == 1 ? "" : fmt::format("replica/{}/", replica.value);
}

// Records what the emulation is compared with.
class Notebook final : public Recorder {
 public:
  explicit Notebook(const Workers& workers) : workers_(workers) {}
  // On the worker's own thread: what it has just saved is what it still has.
  void worked(const WorkRecord& record) override {
    if (record.work.kind == WorkKind::kSave)
      keep(*workers_[workers_.front()->plan().mesh().index(record.worker)]);
    note_round(record);
    if (record.work.kind != WorkKind::kForward) return;
    for (const int64_t number :
         {record.worker.stage.value, record.work.index, record.work.version, record.work.delay}) {
      pages_[record.worker.replica].forwards.push_back(number);
    }
  }
  void updated(const StageUpdate& update) override {
    applied_ = applied_ && update.applied;
    if (update.loss) pages_[update.worker.replica].losses.push_back(*update.loss);
  }
  void predicted(const Prediction& p) override {
    std::vector<double>& predictions = pages_[p.worker.replica].predictions;
    for (const int64_t number : {p.worker.stage.value, p.update, p.delay}) {
      predictions.push_back(static_cast<double>(number));
    }
    predictions.push_back(p.error);
  }
  void evaluated(const StageEvaluation&) override {}

  bool diverged() const { return !applied_; }
  void write(const Recipe& recipe, TensorFile& out) const {
    for (const auto& [replica, page] : pages_) {
      const std::string prefix = prefix_of(recipe, replica);
      const at::Tensor forwards = at::tensor(page.forwards, at::kLong).view({-1, 4});
      const at::Tensor predictions = at::tensor(page.predictions, at::kDouble).view({-1, 4});
      out.tensors.push_back({prefix + "losses", at::tensor(page.losses, at::kDouble)});
      out.tensors.push_back({prefix + "forwards", forwards});
      out.tensors.push_back({prefix + "predictions", predictions});
      for (const NamedTensor& saved : page.saved) {
        out.tensors.push_back({prefix + saved.name, saved.tensor});
      }
    }
    if (recipe.mesh.replicas == 1 || recipe.averaging.method != AveragingMethod::kLowbit) return;
    out.tensors.push_back({"rounds", at::tensor(rounds_, at::kLong).view({-1, 5})});
    out.tensors.push_back({"parts", at::tensor(parts_, at::kLong).view({-1, 4})});
    std::vector<int64_t> chunks;
    const AveragingCompute& averaging = workers_.front()->compute()->averaging();
    for (int64_t c = 0; c < workers_.front()->plan().lanes.front().chunks({0}); ++c) {
      chunks.push_back(averaging.chunk_values(Lane::kMain, c));
    }
    out.tensors.push_back({"chunks", at::tensor(chunks, at::kLong)});
  }

 private:
  // The records of one replica.
  struct Page {
    std::vector<double> losses;
    std::vector<int64_t> forwards;
    std::vector<double> predictions;
    std::vector<NamedTensor> saved;
  };
  void keep(const Worker& worker) {
    const StageState state = worker.compute()->state();
    std::vector<NamedTensor>& saved = pages_[state.worker.replica].saved;
    const std::string prefix = fmt::format("saved/{}/{}/", state.update, state.worker.stage.value);
    saved.push_back({prefix + "weights", state.weights});
    for (const auto& [name, buffer] : state.optimizer.buffers) {
      saved.push_back({prefix + name, buffer});
    }
  }

  void note_round(const WorkRecord& record) {
    const Work& work = record.work;
    const auto kind = work.kind == WorkKind::kContribute && !work.replicas.empty() ? 0
                      : work.kind == WorkKind::kReduce                             ? 1
                      : work.kind == WorkKind::kMerge                              ? 2
                                                                                   : -1;
    if (kind < 0 || work.lane != Lane::kMain) return;
    if (record.worker.stage.value != 0) return;
    const int64_t replica = record.worker.replica.value;
    rounds_.insert(rounds_.end(), {kind, replica, work.update, work.chunk, work.index});
    for (const PartId& part : work.parts) {
      parts_.insert(parts_.end(), {work.chunk, work.index, part.replica.value, part.number});
    }
  }

  const Workers& workers_;
  bool applied_ = true;
  std::vector<int64_t> rounds_;
  std::vector<int64_t> parts_;
  std::map<ReplicaId, Page> pages_;
};

// A copy of one flat buffer of a stage, cut into its parameters.
void put(const std::string& prefix, const Worker& worker, const at::Tensor& flat, TensorFile& out) {
  for (const Parameter& p : worker.compute()->stage().model().layout()) {
    const at::Tensor part = flat.narrow(0, p.offset, p.count()).clone();
    const bool vector = p.kind == ParameterKind::kVector;
    out.tensors.push_back({fmt::format("{}/{}/{}", prefix, worker.id().stage.value, p.name),
                           vector ? part : part.view({p.rows, p.cols})});
  }
}

void put_weights(const Recipe& recipe, const std::string& kind, const Workers& workers,
                 TensorFile& out) {
  for (const auto& worker : workers) {
    const std::string prefix = prefix_of(recipe, worker->id().replica);
    put(prefix + kind, *worker, worker->compute()->stage().weights(), out);
  }
}

void put_moments(const Recipe& recipe, const Workers& workers, TensorFile& out) {
  for (const auto& worker : workers) {
    const std::string prefix = prefix_of(recipe, worker->id().replica);
    for (const auto& [name, buffer] : worker->compute()->stage().optimizer().state().buffers) {
      put(prefix + name, *worker, buffer, out);
    }
  }
}

// Which rounds there are, and how they cut a stage.
struct Rounds {
  std::string kind;
  uint64_t seed = 0;
  double fraction = 1;
  int64_t interval = 1;
};

std::vector<Rounds> rounds_of(const Recipe& recipe) {
  const AveragingOptions& averaging = recipe.averaging;
  const auto seed = static_cast<uint64_t>(recipe.run.seed);
  if (recipe.mesh.replicas == 1) return {};
  if (averaging.method == AveragingMethod::kSparse) {
    return {{"subset", seed, averaging.fraction, averaging.interval}};
  }
  return {};
}

void put_subsets(const Recipe& recipe, const Workers& workers, TensorFile& out) {
  for (const Rounds& rounds : rounds_of(recipe)) {
    for (const auto& worker : workers) {
      if (worker->id().replica.value > 0) break;
      const Cut cut({.seed = rounds.seed,
                     .stage = worker->id().stage,
                     .parameters = worker->compute()->stage().weights().numel(),
                     .fraction = rounds.fraction,
                     .granularity = recipe.averaging.granularity});
      for (int64_t k = 0; k < recipe.run.updates / rounds.interval; ++k) {
        out.tensors.push_back({fmt::format("{}/{}/{}", rounds.kind, worker->id().stage.value, k),
                               at::tensor(coordinates_of(cut.subset(k)), at::kLong)});
      }
    }
  }
}

void put_constants(const Recipe& recipe, int64_t vocabulary, TensorFile& out) {
  std::vector<int64_t> warmups;
  std::vector<double> shares;
  std::vector<double> horizons;
  for (const StageOptions& stage : stage_options(recipe, vocabulary)) {
    const StageId id = {static_cast<int64_t>(warmups.size())};
    warmups.push_back(Schedule(pipeline_shape(recipe), id).warmup());
    shares.push_back(
        stage.update.gradient_share.value_or(std::numeric_limits<double>::quiet_NaN()));
    horizons.push_back(stage.horizon);
  }
  out.tensors.push_back({"warmups", at::tensor(warmups, at::kLong)});
  out.tensors.push_back({"gradient_shares", at::tensor(shares, at::kDouble)});
  out.tensors.push_back({"horizons", at::tensor(horizons, at::kDouble)});
}

void put_data(const Recipe& recipe, const TokenFile& tokens, TensorFile& out) {
  const int64_t context = recipe.model.context;
  const int64_t update_every = recipe.pipeline.update_every;
  const SamplerOptions sampler = {.seed = static_cast<uint64_t>(recipe.run.seed),
                                  .window_count = window_count_of(tokens.info().count, context),
                                  .replicas = recipe.mesh.replicas,
                                  .microbatch = recipe.data.batch / update_every};
  for (int64_t r = 0; r < recipe.mesh.replicas; ++r) {
    std::vector<at::Tensor> ids;
    std::vector<at::Tensor> targets;
    for (int64_t m = 0; m < recipe.run.updates * update_every; ++m) {
      Batch batch = read_microbatch(tokens, context, sampler, {m}, {r}, at::kCPU);
      ids.push_back(std::move(batch.inputs));
      targets.push_back(std::move(batch.targets));
    }
    out.tensors.push_back({prefix_of(recipe, {r}) + "ids", at::stack(ids)});
    out.tensors.push_back({prefix_of(recipe, {r}) + "targets", at::stack(targets)});
  }
}

// Workers of different speeds behind links that jitter: the order of arrival keeps changing, and
// must not matter.
sim::SimulationOptions uneven_machines(const Recipe& recipe, const Json& job) {
  sim::SimulationOptions options;
  options.messages = {.seed = 3, .twice = job.value("twice", 0.0), .lost = job.value("lost", 0.0)};
  for (int64_t w = 0; w < recipe.mesh.replicas * recipe.mesh.stages; ++w) {
    const int64_t slower = 1 + (w % recipe.mesh.stages + w / recipe.mesh.stages) % 2;
    options.costs.push_back({.forward = {1000 * slower},
                             .backward = {2000 * slower},
                             .update = {300},
                             .save = {500},
                             .evaluate = {1000}});
  }
  options.links.seed = 5;
  options.links.all = {.latency = {700}, .bytes_per_second = 0, .jitter = {4000}};
  return options;
}

std::unique_ptr<Driver> make_driver(const Recipe& recipe, const Json& job) {
  if (recipe.run.driver == DriverName::kThreads) return std::make_unique<threads::Threads>(1);
  return std::make_unique<sim::Simulation>(uneven_machines(recipe, job));
}

Status run_job(const Path& path) {
  LEEWAY_ASSIGN(const std::string text, read_text(path));
  const Json job = Json::parse(text);
  LEEWAY_ASSIGN(const LoadedRecipe loaded,
                parse_recipe(job.at("recipe").get<std::string>(), path.string(),
                             job.value("sets", std::vector<std::string>())));
  const Recipe& recipe = loaded.recipe;
  const int64_t vocabulary = job.at("vocabulary");
  LEEWAY_ASSIGN(const TokenFile tokens,
                make_tokens(path.parent_path() / "train.tokens", job.at("tokens"),
                            static_cast<uint64_t>(vocabulary)));

  TensorFile out;
  const MeshData data = {.train = tokens, .vocabulary = vocabulary};
  const RunPlan plan = make_plan(recipe, data);
  const Workers workers = make_workers(recipe, data, plan);
  put_data(recipe, tokens, out);
  put_constants(recipe, vocabulary, out);
  put_subsets(recipe, workers, out);
  put_weights(recipe, "initial", workers, out);
  Notebook recorder(workers);
  LEEWAY_TRY(make_driver(recipe, job)->run(workers, recorder));
  if (recorder.diverged()) return Error{"the run diverged: nothing to compare"};
  put_weights(recipe, "final", workers, out);
  put_moments(recipe, workers, out);
  recorder.write(recipe, out);
  return write_safetensors(job.at("out").get<std::string>(), out);
}

}  // namespace
}  // namespace leeway

int main(int argc, char** argv) {
  LEEWAY_CHECK(argc == 2, "usage: pipeline_probe JOB.json");
  at::set_num_threads(1);  // these tensors are tiny: a second thread only waits
  const leeway::Status status = leeway::run_job(argv[1]);
  if (status.ok()) return 0;
  fmt::print(stderr, "pipeline_probe: {}\n", status.error().message);
  return 1;
}
