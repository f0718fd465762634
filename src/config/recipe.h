// A checked recipe: everything that defines a run. TOML files, --set, the event log and the results
// use the same names (docs/configuration.md). These are the defaults everywhere, except for those
// that depend on other fields: load_recipe() fills those in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/choices.h"

namespace leeway {

struct RunOptions {
  int64_t updates = 1000;  // or the number that `tokens` asks for, rounded up
  int64_t tokens = 0;      // 0: `updates` sets the length
  int64_t seed = 1;
  DriverName driver = DriverName::kThreads;
  std::string device = "cpu";  // auto, cpu, cuda, cuda:N
  Precision precision = Precision::kFp32;
  int64_t threads_per_worker = 0;    // 0: one if there are several workers, else all cores
  int64_t evaluate_every = 100;      // updates; 0: only at the end
  int64_t evaluate_mean_every = -1;  // updates; 0: only at the end; negative: as traffic allows
  int64_t evaluate_windows = 64;     // 0: all of the validation data
  int64_t checkpoint_every = -1;     // updates; 0: only at the end; negative: not decided yet
  int64_t keep = 2;                  // number of newest checkpoints to keep
  double join_mbit = 100;            // at which one that joins gets its state; 0: no limit
  std::vector<std::string> faults;   // sentences of config/faults.h
  LogLevel log = LogLevel::kAuto;
  bool operator==(const RunOptions&) const = default;
};

struct ModelOptions {
  Architecture architecture = Architecture::kLlama;
  int64_t layers = 4;
  int64_t width = 128;
  int64_t heads = 4;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t hidden = 0;    // 0: 4 width (gpt2), 8/3 width rounded up to a multiple of 32 (llama)
  int64_t context = 128;
  Activation activation = Activation::kSwiglu;  // default depends on the architecture
  bool bias = true;                             // gpt2 only
  bool operator==(const ModelOptions&) const = default;
};

struct DataOptions {
  std::vector<std::string> train;  // a folder made by `data prepare`, or text files, folders, globs
  std::vector<std::string> valid;  // empty: the validation part of `train`
  std::string tokenizer = "bytes";  // for text: bytes, gpt2:DIR, sentencepiece:FILE, hf:FILE
  double valid_share = 0.05;        // share of the documents; not for prepared data
  int64_t batch = 16;               // sequences per update and replica
  bool own_parts = false;           // each replica reads only its own part
  bool operator==(const DataOptions&) const = default;
};

struct OptimizerOptions {
  UpdateRule name = UpdateRule::kMuon;
  double rate = 3e-3;
  double matrix_rate = 0.02;  // Muon's rate, for the 2-D weights of the blocks
  double beta1 = 0.95;        // default depends on the optimizer
  double beta2 = 0.999;       // likewise
  double epsilon = 1e-8;
  double decay = 0.0;
  double clip = 1.0;  // 0: no clipping
  StageClip clip_stages = StageClip::kShare;
  bool nesterov = true;        // default depends on the optimizer
  double gradient_share = -1;  // share of the direction; negative: the optimizer's own form
  MomentType moments = MomentType::kF32;
  SecondMoment second_moment = SecondMoment::kOwn;
  int64_t warmup = 0;
  RateSchedule schedule = RateSchedule::kCosine;
  double final = 0.1;  // rate at the last update, as a share of the peak
  bool operator==(const OptimizerOptions&) const = default;
};

struct MeshOptions {
  int64_t stages = 1;
  int64_t replicas = 1;
  std::vector<std::string> devices = {};  // empty: all of run.device
  bool operator==(const MeshOptions&) const = default;
};

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::kAsync;
  int64_t update_every = 0;                     // microbatches per update, K; 0: auto, W_0 + 1
  int64_t extra_per_hop = 0;                    // W_s = (P-1-s) (1 + extra_per_hop)
  Lookahead lookahead = Lookahead::kTentative;  // default depends on the optimizer and the delays
  int64_t refresh = 0;                          // for tentative: guesses per update and stage
  double horizon = -1;                          // negative: set by the look-ahead (predict: 1)
  bool recompute = false;
  bool stash = true;
  StashPlace stash_on = StashPlace::kDevice;
  bool graphs = true;
  PipelineWire wire = PipelineWire::kF32;
  bool operator==(const PipelineOptions&) const = default;
};

// What the replicas of a stage exchange, and how they merge it.
struct AveragingOptions {
  AveragingMethod method = AveragingMethod::kSparse;  // one replica: none
  double fraction = 0.05;  // share of the coordinates in a round; only for sparse
  int64_t interval = 1;    // updates between two rounds
  Correction correction = Correction::kEma;
  double ema_start = 0.5;
  double ema_end = 0.99;
  double outer_rate = 1;
  double outer_momentum = 0.5;
  MergePolicy merge = MergePolicy::kOnArrival;
  double lag = 1;            // for fixed_lag, in updates
  double deadline_ms = -1;   // for on_arrival: how long an owner waits after the first arrival;
                             // negative: follows the time between updates
  int64_t granularity = 64;  // neighbouring coordinates that travel together
  WireFormat wire = WireFormat::kF32;
  double smoothing = 0;       // for lowbit
  double gain = 0;            // for lowbit
  double gain_smoothing = 0;  // for lowbit
  double threshold = 0.6;     // for ternary
  bool guard = false;         // lengthens the interval if merging would be unstable
  bool operator==(const AveragingOptions&) const = default;
};

// The machines and links that the simulator simulates.
struct SimOptions {
  double flops = 1e12;         // operations per second of each worker
  std::vector<double> speeds;  // factors on `flops`, one per stage; empty: all 1
  double latency_ms = 0;       // each link, one way
  double bandwidth_mbit = 0;   // each link and direction; 0: no limit
  double jitter_ms = 0;        // most extra latency, drawn by seed and message
  double notice_ms = 1000;     // until somebody who is lost is missed
  double save_ms = 0;          // until what a worker saves is on its disk
  bool operator==(const SimOptions&) const = default;
};

// A slow line between real processes, as SimOptions describes one between simulated machines.
struct EmulatedLine {
  double latency_ms = 0;      // one way
  double bandwidth_mbit = 0;  // each link and direction; 0: no limit
  double jitter_ms = 0;       // most extra latency
  double loss = 0;            // share of the frames that arrive late, as if sent again
  bool operator==(const EmulatedLine&) const = default;
};

// How the processes of a run reach each other.
struct NetworkOptions {
  std::string listen = "tcp://*:0";  // where a process waits for others; port 0: any free one
  double cap_mbit = 0;               // what each link may use; 0: no limit
  int64_t heartbeat_ms = 500;        // a process that is silent for four of them counts as gone
  EmulatedLine emulate;
  bool operator==(const NetworkOptions&) const = default;
};

struct Recipe {
  RunOptions run;
  ModelOptions model;
  DataOptions data;
  OptimizerOptions optimizer;
  MeshOptions mesh;
  PipelineOptions pipeline;
  AveragingOptions averaging;
  SimOptions sim;
  NetworkOptions network;
  bool operator==(const Recipe&) const = default;
};

}  // namespace leeway
