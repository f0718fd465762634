// Long file: the table of all keys.
#include "config/keys.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "config/texts.h"
#include "config/words.h"

namespace leeway {
namespace {

// What a chain of pointers to members leads to: a table, perhaps one inside it, a field.
template <auto... Members>
constexpr auto& at_end(auto& recipe) {
  return (recipe.*....*Members);
}

template <auto... Members>
using MemberType = std::remove_reference_t<decltype(at_end<Members...>(std::declval<Recipe&>()))>;

template <auto... Members>
constexpr auto access() {
  using T = MemberType<Members...>;
  return Access<T>{
      .get = [](const Recipe& recipe) -> const T& { return at_end<Members...>(recipe); },
      .edit = [](Recipe& recipe) -> T& { return at_end<Members...>(recipe); }};
}

template <auto... Members>
constexpr Field whole(int64_t min, int64_t max) {
  return WholeField{access<Members...>(), min, max};
}

template <auto... Members>
constexpr Field number(double min, double max, Ends ends) {
  return NumberField{access<Members...>(), min, max, ends};
}

template <auto... Members>
constexpr Field toggle() {
  return SwitchField{access<Members...>()};
}

template <auto... Members>
constexpr Field list() {
  return ListField{access<Members...>()};
}

template <auto... Members>
constexpr Field numbers(double above, double max) {
  return NumbersField{access<Members...>(), above, max};
}

template <auto... Members>
constexpr Field word() {
  using Enum = MemberType<Members...>;
  return WordField{.get = [](const Recipe& recipe) { return word_of(at_end<Members...>(recipe)); },
                   .set =
                       [](Recipe& recipe, std::string_view text) {
                         const auto value = enum_of<Enum>(text);
                         if (value) at_end<Members...>(recipe) = *value;
                         return value.has_value();
                       },
                   .words = kWords<Enum>};
}

constexpr Field device_field() {
  return TextField{access<&Recipe::run, &RunOptions::device>(), is_device,
                   "\"auto\", \"cpu\", \"cuda\" or \"cuda:N\""};
}

constexpr Field tokenizer_field() {
  return TextField{access<&Recipe::data, &DataOptions::tokenizer>(), is_tokenizer,
                   "\"bytes\", \"gpt2:DIR\", \"sentencepiece:FILE\" or \"hf:FILE\""};
}

constexpr Field listen_field() {
  return TextField{access<&Recipe::network, &NetworkOptions::listen>(), is_listen_address,
                   "\"tcp://HOST:PORT\", HOST a name, an address or *, PORT 0 for any free one"};
}

constexpr auto kRun = &Recipe::run;
constexpr auto kModel = &Recipe::model;
constexpr auto kData = &Recipe::data;
constexpr auto kOptimizer = &Recipe::optimizer;
constexpr auto kMesh = &Recipe::mesh;
constexpr auto kPipeline = &Recipe::pipeline;
constexpr auto kAveraging = &Recipe::averaging;
constexpr auto kSim = &Recipe::sim;
constexpr auto kNetwork = &Recipe::network;
constexpr auto kEmulate = &NetworkOptions::emulate;

// Upper limits are far above anything that has been trained: they catch typos, and keep products
// such as batch * context far from overflow.
constexpr int64_t kMillion = 1'000'000;
constexpr int64_t kBillion = 1000 * kMillion;
constexpr int64_t kTokensMax = kMillion * kBillion;
constexpr int64_t kSeedMax = INT64_MAX;

constexpr Table kTables[] = {
    {"run", "How long the run is, where it computes, and what it keeps."},
    {"model", "The shape of the language model; both architectures have an untied head."},
    {"data", "The training data; paths are relative to the current folder."},
    {"optimizer", "How gradients become updates."},
    {"mesh", "How many workers there are."},
    {"pipeline", "How the stages of one replica work together."},
    {"averaging", "What the replicas of a stage exchange, and how they merge it."},
    {"sim", "The machines and links that `run.driver = \"sim\"` simulates."},
    {"network", "How the processes of `run.driver = \"zmq\"` reach each other."},
    {"network.emulate",
     "A slow line for `run.driver = \"zmq\"`: what processes on one machine would see far apart."},
};

const Key kKeys[] = {
    {"run.updates", whole<kRun, &RunOptions::updates>(1, kBillion),
     "Optimizer steps in the run; give this or `run.tokens`."},
    {"run.tokens", whole<kRun, &RunOptions::tokens>(0, kTokensMax),
     "Training tokens in the run, rounded up to whole updates of `data.batch` times "
     "`model.context` times `mesh.replicas` tokens; 0: `run.updates` sets the length."},
    {"run.seed", whole<kRun, &RunOptions::seed>(0, kSeedMax),
     "The same seed gives the same weights and the same order of the data."},
    {"run.driver", word<kRun, &RunOptions::driver>(),
     "threads: one thread per worker; sim: one thread and virtual time, with the machines and "
     "links of `[sim]`; zmq: many processes over TCP, started by `leeway launch RECIPE --processes "
     "N` on one machine, or by `leeway coordinate` and `leeway join` on several; mpi: many "
     "processes, started by `mpirun -n N leeway train RECIPE --driver mpi`."},
    {"run.device", device_field(),
     "Device to compute on; auto: a GPU if there is one (then `run.checkpoint_every` is still "
     "chosen "
     "as for the CPU), cuda: all GPUs that are visible, as `mesh.devices` describes."},
    {"run.precision", word<kRun, &RunOptions::precision>(),
     "Number format to compute in; the weights stay in fp32, or in fp64 with fp64."},
    {"run.threads_per_worker", whole<kRun, &RunOptions::threads_per_worker>(0, 4096),
     "Threads per worker; 0: one if there are several workers, else all cores."},
    {"run.evaluate_every", whole<kRun, &RunOptions::evaluate_every>(0, kBillion),
     "Updates between two evaluations on the validation data; 0: only at the end."},
    {"run.evaluate_mean_every", whole<kRun, &RunOptions::evaluate_mean_every>(0, kBillion),
     "With several replicas: evaluations after a multiple of this many updates are of the "
     "replicas' mean, for which each sends a copy of its weights; the others are of one replica's "
     "own weights, which costs no traffic. 1: all are of the mean; 0: only the last. lowbit: all "
     "are "
     "of the common model, which every replica has.",
     "as often as the copies stay within a tenth of the bytes of averaging"},
    {"run.evaluate_windows", whole<kRun, &RunOptions::evaluate_windows>(0, kBillion),
     "Windows of the validation data that an evaluation reads; 0: all of them."},
    {"run.checkpoint_every", whole<kRun, &RunOptions::checkpoint_every>(0, kBillion),
     "Updates between two checkpoints; 0: only at the end.",
     "about two minutes of work, estimated from the size of the model and of an update"},
    {"run.keep", whole<kRun, &RunOptions::keep>(1, kMillion),
     "How many of the newest checkpoints to keep."},
    {"run.join_mbit", number<kRun, &RunOptions::join_mbit>(0.0, 1e9, Ends::kBoth),
     "Megabits per second at which a replica that comes back gets its state from another one, "
     "which goes on training; 0: no limit."},
    {"run.faults", list<kRun, &RunOptions::faults>(),
     "What goes wrong on purpose, after which update: \"replica 1 lost at 200\", \"replica 1 "
     "leaves at 200\" (and says so), \"replica 1 back at 300\" (without its disk), \"replica 1 "
     "back with its disk at 300\", \"coordinator lost at 450\" (another one takes over); for "
     "`run.driver` threads and sim."},
    {"run.log", word<kRun, &RunOptions::log>(),
     "What `events.jsonl` keeps of the work on microbatches. all: every piece; updates: none; "
     "auto: "
     "that of updates 1 to 50 and of ten in every 250 after that (131 to 140, 381 to 390, ...). "
     "Updates, rounds, evaluations and checkpoints are always kept, so that every run can be "
     "replayed."},

    {"model.architecture", word<kModel, &ModelOptions::architecture>(),
     "llama: RMSNorm, rotary positions, gated activation; gpt2: LayerNorm, learned positions."},
    {"model.layers", whole<kModel, &ModelOptions::layers>(1, 4096), "Transformer blocks."},
    {"model.width", whole<kModel, &ModelOptions::width>(1, 65'536),
     "Size of a token's hidden state; a multiple of `model.heads`."},
    {"model.heads", whole<kModel, &ModelOptions::heads>(1, 4096),
     "Attention heads; for llama `model.width` / `model.heads` must be even."},
    {"model.kv_heads", whole<kModel, &ModelOptions::kv_heads>(1, 4096),
     "Key and value heads, a divisor of `model.heads`; fewer than that is grouped-query attention, "
     "for llama only.",
     "`model.heads`"},
    {"model.hidden", whole<kModel, &ModelOptions::hidden>(1, kMillion),
     "Hidden width of a block's feed-forward layer.",
     "gpt2: 4 times `model.width`; llama: 8/3 of it, rounded up to a multiple of 32"},
    {"model.context", whole<kModel, &ModelOptions::context>(1, kMillion),
     "Tokens in one training sequence."},
    {"model.activation", word<kModel, &ModelOptions::activation>(),
     "Non-linearity of the feed-forward layer: swiglu for llama, gelu or relu for gpt2.",
     "llama: swiglu; gpt2: gelu"},
    {"model.bias", toggle<kModel, &ModelOptions::bias>(),
     "Whether linear layers have biases; llama has none.", "llama: false; gpt2: true"},

    {"data.train", list<kData, &DataOptions::train>(),
     "A folder made by `leeway data prepare`, or text files, folders of them and globs; a single "
     "name needs no list.",
     "", true},
    {"data.valid", list<kData, &DataOptions::valid>(),
     "The same for validation; empty: the part of `data.train` that `data.valid_share` sets "
     "aside."},
    {"data.tokenizer", tokenizer_field(),
     "How text becomes tokens; prepared data has its own tokenizer."},
    {"data.valid_share", number<kData, &DataOptions::valid_share>(0.0, 0.5, Ends::kBoth),
     "Share of the documents set aside for validation; of a text with too few documents, its end; "
     "not for prepared data."},
    {"data.batch", whole<kData, &DataOptions::batch>(1, kMillion),
     "Sequences per update and replica; a multiple of `pipeline.update_every`."},
    {"data.own_parts", toggle<kData, &DataOptions::own_parts>(),
     "true: each replica reads only its own part of the data, the first replica the first part, "
     "like sites that keep their data to themselves; false: all replicas share all of it."},

    {"optimizer.name", word<kOptimizer, &OptimizerOptions::name>(),
     "muon updates the matrices of the blocks and leaves the rest to AdamW; the others update "
     "everything."},
    {"optimizer.rate", number<kOptimizer, &OptimizerOptions::rate>(0.0, 100.0, Ends::kMaxOnly),
     "Peak learning rate."},
    {"optimizer.matrix_rate",
     number<kOptimizer, &OptimizerOptions::matrix_rate>(0.0, 100.0, Ends::kMaxOnly),
     "Muon's peak learning rate, for the matrices of the blocks."},
    {"optimizer.beta1", number<kOptimizer, &OptimizerOptions::beta1>(0.0, 1.0, Ends::kMinOnly),
     "Decay of the gradients' running mean (the momentum).",
     "muon: 0.95; adamw, sgd: 0.9; nadamw, and adamw with `pipeline.lookahead` nesterov: 0.99"},
    {"optimizer.beta2", number<kOptimizer, &OptimizerOptions::beta2>(0.0, 1.0, Ends::kMinOnly),
     "Decay of the squared gradients' running mean, for AdamW and NAdamW.",
     "nadamw, and adamw with `pipeline.lookahead` nesterov: 0.999; the others: 0.99"},
    {"optimizer.epsilon", number<kOptimizer, &OptimizerOptions::epsilon>(0.0, 1.0, Ends::kMaxOnly),
     "Added to the root of the squared gradients' mean before dividing by it."},
    {"optimizer.decay", number<kOptimizer, &OptimizerOptions::decay>(0.0, 100.0, Ends::kBoth),
     "Decoupled weight decay of the matrices; multiplied by the learning rate."},
    {"optimizer.clip", number<kOptimizer, &OptimizerOptions::clip>(0.0, 1e9, Ends::kBoth),
     "Limit on the gradient norm, that of the whole model; 0: no clipping."},
    {"optimizer.clip_stages", word<kOptimizer, &OptimizerOptions::clip_stages>(),
     "How stages clip that do not wait for the norm of the whole model (async): each by its own "
     "norm. share: the limit is `optimizer.clip` times the root of the stage's share of the "
     "parameters; whole: it is `optimizer.clip` for each stage, as in the paper."},
    {"optimizer.nesterov", toggle<kOptimizer, &OptimizerOptions::nesterov>(),
     "Nesterov momentum, optional for muon and sgd; nadamw is adamw with it.",
     "adamw: whether `pipeline.lookahead` is nesterov; the others: true"},
    {"optimizer.gradient_share",
     number<kOptimizer, &OptimizerOptions::gradient_share>(0.0, 1.0, Ends::kBoth),
     "Share k of the newest gradient g in the direction k g + (1-k) m, where m is the "
     "bias-corrected momentum; not for nadamw, and matched sets its own.",
     "0.2 for late gradients with the look-ahead tentative; else the optimizer's own form"},
    {"optimizer.moments", word<kOptimizer, &OptimizerOptions::moments>(),
     "Type of the running means; bf16 takes half the memory: they are computed in fp32 and rounded "
     "by chance, up or down, so that small steps are not lost."},
    {"optimizer.second_moment", word<kOptimizer, &OptimizerOptions::second_moment>(),
     "What AdamW divides by if replicas average steps or weights. own: the second moment of a "
     "replica's own gradients, in which noise is `mesh.replicas` times that of their mean; mean: "
     "an estimate of the mean gradient's, which makes larger steps where gradients are noisy."},
    {"optimizer.warmup", whole<kOptimizer, &OptimizerOptions::warmup>(0, kBillion),
     "Updates over which the rate rises from 0; at most `run.updates`."},
    {"optimizer.schedule", word<kOptimizer, &OptimizerOptions::schedule>(),
     "How the rate falls after the warm-up; wsd stays constant and falls at the end."},
    {"optimizer.final", number<kOptimizer, &OptimizerOptions::final>(0.0, 1.0, Ends::kBoth),
     "Rate at the last update, as a share of the peak."},

    {"mesh.stages", whole<kMesh, &MeshOptions::stages>(1, 4096),
     "Pipeline stages that the layers are split into; at most `model.layers`."},
    {"mesh.replicas", whole<kMesh, &MeshOptions::replicas>(1, 256),
     "Pipelines that train the same model, each on different sequences."},
    {"mesh.devices", list<kMesh, &MeshOptions::devices>(),
     "GPUs that the workers of a process are spread over, such as `[\"cuda:0\", \"cuda:1\"]`: "
     "stages in order, replicas after that, neighbouring stages on one GPU if there are more of "
     "them. Empty: with `run.device = \"cuda\"` all that are visible, else `run.device`."},

    {"pipeline.schedule", word<kPipeline, &PipelineOptions::schedule>(),
     "async: stages never wait, at the price of late gradients; 1f1b and gpipe drain the pipeline "
     "at every update, for comparison."},
    {"pipeline.update_every", whole<kPipeline, &PipelineOptions::update_every>(1, kMillion),
     "Microbatches per update; each has `data.batch` / `pipeline.update_every` sequences.",
     "(`mesh.stages` - 1)(1 + `pipeline.extra_per_hop`) + 1, so that no gradient is more than one "
     "update late"},
    {"pipeline.extra_per_hop", whole<kPipeline, &PipelineOptions::extra_per_hop>(0, 1000),
     "Extra microbatches, beyond one, that a stage keeps in flight for every later stage, to hide "
     "the latency of links."},
    {"pipeline.lookahead", word<kPipeline, &PipelineOptions::lookahead>(),
     "What to do about late gradients. tentative: run forwards on the weights that an update on "
     "the gradients so far would give; matched: fit momentum and prediction to the delay; predict: "
     "run forwards on predicted weights; nesterov: use Nesterov momentum (adamw becomes nadamw); "
     "none: nothing.",
     "nadamw: nesterov; the others: none with 1f1b and gpipe, else tentative, or matched where "
     "gradients are more than one update late"},
    {"pipeline.refresh", whole<kPipeline, &PipelineOptions::refresh>(1, 1000),
     "Guesses that tentative makes per update and stage: each costs an optimizer step.", "2"},
    {"pipeline.horizon", number<kPipeline, &PipelineOptions::horizon>(0.0, 10.0, Ends::kBoth),
     "How far predict and matched look ahead, as a share of the delay; 1: to where repeating the "
     "last update would lead.",
     "predict: 1; matched: fitted to the stage's delays"},
    {"pipeline.recompute", toggle<kPipeline, &PipelineOptions::recompute>(),
     "Keep only the inputs of a stage and repeat its forward in the backward: less memory, for up "
     "to a third more time."},
    {"pipeline.stash", toggle<kPipeline, &PipelineOptions::stash>(),
     "Keep the weights that a forward used until its backward; false: with `pipeline.recompute` "
     "the forward is repeated on the newest weights."},
    {"pipeline.stash_on", word<kPipeline, &PipelineOptions::stash_on>(),
     "Where weights wait that only later backwards need. host: in the machine's memory, so that a "
     "GPU has two copies at most; each is copied there and back once. The result is the same."},
    {"pipeline.graphs", toggle<kPipeline, &PipelineOptions::graphs>(),
     "Hand a microbatch to a GPU as one piece, a CUDA graph, in place of a hundred small ones: "
     "faster with small microbatches, for some memory. The result is the same. Not used on the "
     "CPU, with `pipeline.recompute`, or where `pipeline.stash_on` is host."},
    {"pipeline.wire", word<kPipeline, &PipelineOptions::wire>(),
     "Number format of the activations and gradients that stages send each other. f32: as they are "
     "computed (bf16 with `run.precision` bf16); int8 and int4 share a scale in blocks of 256 and "
     "64. Evaluations are sent as they are computed."},

    {"averaging.method", word<kAveraging, &AveragingOptions::method>(),
     "What replicas exchange. sparse: a different part of the weights in every round; lowbit: all "
     "steps, in few bits; allreduce: the gradients of every update; weights: all weights; diloco: "
     "all weights, rarely, with an outer optimizer; none: nothing.",
     "sparse; none with one replica"},
    {"averaging.fraction", number<kAveraging, &AveragingOptions::fraction>(1e-6, 1.0, Ends::kBoth),
     "Share of a stage's weights in a sparse round: one of n equal parts, n = 1 / fraction rounded "
     "up.",
     "sparse: 0.05; the others: 1"},
    {"averaging.interval", whole<kAveraging, &AveragingOptions::interval>(1, kBillion),
     "Updates between two rounds; cannot be set for allreduce.", "diloco: 50; the others: 1"},
    {"averaging.correction", word<kAveraging, &AveragingOptions::correction>(),
     "What sparse and diloco do with the steps that a worker made before the mean arrived. none: "
     "they are lost; delta: they are added to the mean; ema: their running mean is added to it.",
     "sparse: ema; diloco: delta; the others: none"},
    {"averaging.ema_start",
     number<kAveraging, &AveragingOptions::ema_start>(0.0, 1.0, Ends::kMinOnly),
     "Decay of the running mean in the correction ema, for the first 1000 rounds.", "0.5"},
    {"averaging.ema_end", number<kAveraging, &AveragingOptions::ema_end>(0.0, 1.0, Ends::kMinOnly),
     "The same for the last round of the run; a cosine leads from one to the other.", "0.99"},
    {"averaging.outer_rate",
     number<kAveraging, &AveragingOptions::outer_rate>(0.0, 10.0, Ends::kMaxOnly),
     "Learning rate of the outer optimizer of sparse and diloco, whose gradient is how far the "
     "mean has moved; 1 without momentum takes the mean as it is.",
     "diloco: 0.7; the others: 1"},
    {"averaging.outer_momentum",
     number<kAveraging, &AveragingOptions::outer_momentum>(0.0, 1.0, Ends::kMinOnly),
     "Nesterov momentum of the outer optimizer.", "sparse: 0.5; diloco: 0.9; the others: 0"},
    {"averaging.merge", word<kAveraging, &AveragingOptions::merge>(),
     "on_arrival: a round's result is merged after the microbatch in which it arrives; fixed_lag: "
     "exactly `averaging.lag` updates after the worker sent its part, which waits for all replicas "
     "and makes a run repeatable to the bit.",
     "sparse, lowbit: on_arrival; the others: fixed_lag"},
    {"averaging.lag", number<kAveraging, &AveragingOptions::lag>(0.0, 1e6, Ends::kBoth),
     "Updates that a worker makes between sending and merging, for fixed_lag; 0.5: in the middle "
     "of the next update, after half of its microbatches; 0: it waits for the result right away.",
     "sparse, lowbit: 1; the others: 0"},
    {"averaging.deadline_ms",
     number<kAveraging, &AveragingOptions::deadline_ms>(0.0, 1e7, Ends::kMaxOnly),
     "How long after its first arrival a round waits for the missing replicas before it continues "
     "without them, for on_arrival; auto: at least a second.",
     "two rounds of the slowest replica, as measured"},
    {"averaging.granularity", whole<kAveraging, &AveragingOptions::granularity>(1, kMillion),
     "Neighbouring weights that sparse picks together; 1: each is picked separately.", "64"},
    {"averaging.wire", word<kAveraging, &AveragingOptions::wire>(),
     "Number format on the way; int8, int4 and ternary share a scale in blocks, int8_stochastic "
     "rounds at random, and int4 and ternary are for lowbit alone.",
     "lowbit: ternary; the others: f32"},
    {"averaging.threshold",
     number<kAveraging, &AveragingOptions::threshold>(0.0, 10.0, Ends::kBoth),
     "How large a number must be for ternary to send it now and not later, in root mean squares of "
     "its block; a larger one sends fewer bytes.",
     "0.6"},
    {"averaging.smoothing",
     number<kAveraging, &AveragingOptions::smoothing>(0.0, 1.0, Ends::kMinOnly),
     "Share of a lowbit merge that is left to later merges; use 0.95 with long lags.", "0"},
    {"averaging.gain", number<kAveraging, &AveragingOptions::gain>(0.0, 10.0, Ends::kBoth),
     "How much of the running mean of the common steps lowbit adds at a merge; use 1 with long "
     "lags.",
     "0"},
    {"averaging.gain_smoothing",
     number<kAveraging, &AveragingOptions::gain_smoothing>(0.0, 1.0, Ends::kMinOnly),
     "Decay of that running mean; use 0.95 with long lags.", "0"},
    {"averaging.guard", toggle<kAveraging, &AveragingOptions::guard>(),
     "Lengthen the interval of all replicas if merging would be unstable."},

    {"sim.flops", number<kSim, &SimOptions::flops>(0.0, 1e24, Ends::kMaxOnly),
     "Floating-point operations per second of each worker."},
    {"sim.speeds", numbers<kSim, &SimOptions::speeds>(0.0, 1e6),
     "One factor on `sim.flops` for each stage, or for each worker, replica after replica; empty: "
     "all 1."},
    {"sim.latency_ms", number<kSim, &SimOptions::latency_ms>(0.0, 1e6, Ends::kBoth),
     "Latency of a message from one stage to the next, on top of the time for its bytes."},
    {"sim.bandwidth_mbit", number<kSim, &SimOptions::bandwidth_mbit>(0.0, 1e9, Ends::kBoth),
     "Bandwidth of a link in megabits per second, each way; 0: no limit."},
    {"sim.jitter_ms", number<kSim, &SimOptions::jitter_ms>(0.0, 1e6, Ends::kBoth),
     "Random extra latency of up to this much, drawn for every message."},
    {"sim.notice_ms", number<kSim, &SimOptions::notice_ms>(0.0, 1e9, Ends::kBoth),
     "How long it takes until somebody who is lost (`run.faults`) is missed."},
    {"sim.save_ms", number<kSim, &SimOptions::save_ms>(0.0, 1e9, Ends::kBoth),
     "How long it takes until what a worker saves is on its disk."},

    {"network.listen", listen_field(), "Where a process waits for the others."},
    {"network.cap_mbit", number<kNetwork, &NetworkOptions::cap_mbit>(0.0, 1e9, Ends::kBoth),
     "Megabits per second that each link may use, each way; 0: no limit."},
    {"network.heartbeat_ms", whole<kNetwork, &NetworkOptions::heartbeat_ms>(10, 60'000),
     "How often a process says that it is there; one that is silent for four times as long counts "
     "as gone."},

    {"network.emulate.latency_ms",
     number<kNetwork, kEmulate, &EmulatedLine::latency_ms>(0.0, 1e6, Ends::kBoth),
     "Latency of a message, one way, on top of the time for its bytes."},
    {"network.emulate.bandwidth_mbit",
     number<kNetwork, kEmulate, &EmulatedLine::bandwidth_mbit>(0.0, 1e9, Ends::kBoth),
     "Bandwidth of a link in megabits per second, each way; 0: no limit."},
    {"network.emulate.jitter_ms",
     number<kNetwork, kEmulate, &EmulatedLine::jitter_ms>(0.0, 1e6, Ends::kBoth),
     "Random extra latency of up to this much, drawn for every message."},
    {"network.emulate.loss", number<kNetwork, kEmulate, &EmulatedLine::loss>(0.0, 0.5, Ends::kBoth),
     "Share of the frames that arrive late, as if they had been lost and sent again."},
};

}  // namespace

std::span<const Table> tables() { return kTables; }

std::span<const Key> keys() { return kKeys; }

const Key* find_key(std::string_view path) {
  const auto found = std::ranges::find(kKeys, path, &Key::path);
  return found == std::end(kKeys) ? nullptr : &*found;
}

}  // namespace leeway
