// The choices that a recipe names with a word, as enums that config/ shares with the code that
// implements them. config/words.h has the words.
#pragma once

namespace leeway {

enum class DriverName {
  kThreads,  // one process, by the wall clock
  kSim,      // one process, in virtual time
  kZmq,      // many processes over TCP
  kMpi,      // many processes that mpirun starts
};
enum class Precision { kFp32, kBf16, kFp64 };
// What the event log keeps of the work on microbatches: events/log_level.h.
enum class LogLevel { kAuto, kAll, kUpdates };

enum class Architecture { kLlama, kGpt2 };
enum class Activation { kSwiglu, kGelu, kRelu };

enum class UpdateRule { kMuon, kAdamW, kNAdamW, kSgd };
enum class MomentType { kF32, kBf16 };
// Whose second moment AdamW divides by, where replicas average steps or weights.
enum class SecondMoment {
  kOwn,   // of the replica's own gradients
  kMean,  // of the mean gradient of all replicas, estimated from its own
};
// What a stage of an asynchronous pipeline, which does not wait for the norm of the whole model,
// clips the norm of its own gradients by.
enum class StageClip {
  kShare,  // the limit times the root of its share of the parameters
  kWhole,  // the limit, as the paper does
};
enum class RateSchedule {
  kCosine,    // half a cosine from 1 down to `final`
  kLinear,    // a straight line from 1 down to `final`
  kConstant,  // 1; `final` is not used
  kWsd,       // warm-up, stable, decay: 1, then a straight line to `final` in the last fifth
};

enum class PipelineSchedule { kAsync, k1f1b, kGpipe };
// Where versions wait that only a backward needs.
enum class StashPlace { kDevice, kHost };
enum class Lookahead { kTentative, kMatched, kPredict, kNesterov, kNone };

enum class AveragingMethod { kSparse, kLowbit, kAllreduce, kWeights, kDiloco, kNone };
// What a merge does with a worker's own steps u since it sent its part; A is the mean, e an average
// of u.
enum class Correction {
  kNone,   // w = A: the steps are lost
  kDelta,  // w = A + u
  kEma,    // e = m e + (1 - m) u; w = A + e
};
enum class MergePolicy { kOnArrival, kFixedLag };
// Number formats on the wire: averaging/wire.h.
enum class WireFormat { kF32, kBf16, kInt8, kInt8Stochastic, kInt4, kTernary };
// What of these stages of a pipeline send each other; kF32: numbers as they are computed.
enum class PipelineWire { kF32, kBf16, kInt8, kInt4 };

}  // namespace leeway
