// Decides when a stage runs a forward or a backward, from counters alone, so that the arithmetic of
// a pipeline does not depend on timing. All schedules are one rule with two parameters: how many
// microbatches a stage keeps in flight, and how often everything drains (a flush point).
//
//   async  W_s = (P-1-s)(1+extra), flushes only when the run asks for it
//   1f1b   the same depth, a flush per update
//   gpipe  W_s = K-1: all forwards of an update, then all backwards, a flush per update
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "config/choices.h"

namespace leeway {

struct PipelineShape {
  PipelineSchedule order = PipelineSchedule::kAsync;
  int64_t stages = 1;         // P
  int64_t update_every = 1;   // K: microbatches per update
  int64_t extra_per_hop = 0;  // depth beyond P-1-s, to hide the latency of links

  bool synchronous() const { return order != PipelineSchedule::kAsync; }
};

// The progress of one replica's stage, counted from the start of the run.
struct Counts {
  int64_t forwards = 0;
  int64_t backwards = 0;
  int64_t updates = 0;
  auto operator<=>(const Counts&) const = default;
  int64_t in_flight() const { return forwards - backwards; }
};

// One stage's part of the pipeline.
class Schedule {
 public:
  Schedule(const PipelineShape& shape, StageId stage);

  // W_s: forwards that run ahead of the backwards.
  int64_t warmup() const { return warmup_; }
  int64_t update_every() const { return update_every_; }

  // A stage runs no forwards of update `flush` or later until `flush` updates are done.
  bool wants_forward(const Counts& at, UpdateId flush) const {
    return at.forwards < flush.value * update_every_ && at.in_flight() <= warmup_;
  }
  bool wants_backward(const Counts& at, UpdateId flush) const {
    return at.in_flight() > 0 && !wants_forward(at, flush);
  }
  bool update_due(const Counts& at) const {
    return at.backwards == (at.updates + 1) * update_every_;
  }

  // The update that a microbatch's gradient goes into, counted from 0.
  UpdateId update_of(MicrobatchId m) const { return {m.value / update_every_}; }
  // Updates between the weights that a forward of m used and those its gradient meets.
  int64_t delay(MicrobatchId m, UpdateId version) const {
    return update_of(m).value - version.value;
  }
  // The same from the formula, m counted from the last flush point.
  int64_t expected_delay(int64_t m) const;
  // tau_s = ceil(W_s / K), or 0 if every update is a flush point.
  int64_t delay_max() const;
  // Mean over an update's microbatches, once the pipeline is full.
  double delay_mean() const;

 private:
  int64_t warmup_ = 0;
  int64_t update_every_ = 1;
  bool synchronous_ = false;
};

}  // namespace leeway
