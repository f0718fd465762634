// Microbatches of a stage as graphs (kernels/graph.h): one for the forward and one for the backward
// of each pair of a slot and a version, made when the pair first comes up. A slot is all that a
// microbatch keeps from its forward to its backward, always in the same place. There are as many
// slots as microbatches were ever in flight at once.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <list>
#include <map>
#include <optional>

#include "base/ids.h"
#include "kernels/graph.h"
#include "model/stage_model.h"
#include "pipeline/versions.h"

namespace leeway {

// What a microbatch keeps until its backward.
struct Microbatch {
  at::Tensor input = {};    // unless everything that is needed of it is saved
  at::Tensor targets = {};  // last stage
  LossOptions loss_options = {};
  StageSaved saved = {};
  at::Tensor head_in = {};  // last stage: what the head takes
  at::Tensor loss = {};     // last stage: which the backward makes
};

struct MicrobatchGradient {
  at::Tensor dx;    // of the input; undefined for the first stage
  at::Tensor loss;  // last stage: a scalar on the device
};

struct MicrobatchPasses {
  // From the input to the output, which is undefined at the last stage.
  std::function<at::Tensor(const Version&, Microbatch&)> forward;
  // Consumes what the forward has saved. `dy` is undefined at the last stage; it makes the loss.
  std::function<at::Tensor(const Version&, Microbatch&, const at::Tensor& dy)> backward;
};

class GraphedMicrobatches {
 public:
  GraphedMicrobatches(const at::Device& device, MicrobatchPasses passes);

  // To be called once, before the first forward: runs a microbatch there and back. The gradients
  // that it adds are the caller's to clear.
  bool is_rehearsed() const { return !slots_.empty(); }
  void rehearse(const Version& version, const Microbatch& microbatch);

  // All microbatches have the same sizes and loss options.
  at::Tensor forward(MicrobatchId m, const Version& version, const Microbatch& microbatch);
  MicrobatchGradient backward(MicrobatchId m, const Version& version, const at::Tensor& dy);
  // Drops what is in flight.
  void restart();

  int64_t slot_count() const { return static_cast<int64_t>(slots_.size()); }

 private:
  struct Pass {
    WorkGraph forward;
    WorkGraph backward;
    Microbatch microbatch;  // the slot's tensors, and what the forward has saved
  };
  struct Slot {
    explicit Slot(const at::Device& device) : memory(device) {}

    GraphMemory memory;
    at::Tensor input;
    at::Tensor targets;
    at::Tensor dy;
    std::map<const Version*, Pass> passes;
    std::optional<MicrobatchId> holds;  // none: it is free
  };
  Slot& add_slot(const Microbatch& like);
  // Copies it there; returns it as the slot has it.
  static Microbatch put_into(Slot& slot, const Microbatch& microbatch);
  Slot& free_slot(const Version& version, const Microbatch& like);

  at::Device device_;
  MicrobatchPasses passes_;
  GraphMaker maker_;
  std::list<Slot> slots_;  // never moved: their graphs refer to them
};

}  // namespace leeway
