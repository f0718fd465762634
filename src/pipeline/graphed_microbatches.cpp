#include "pipeline/graphed_microbatches.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leeway {
namespace {

at::Tensor buffer_like(const at::Tensor& tensor) {
  return tensor.defined() ? at::empty_like(tensor) : at::Tensor();
}

void write_to(const at::Tensor& to, const at::Tensor& from) {
  LEEWAY_CHECK(to.defined() == from.defined(), "all microbatches of a stage have the same parts");
  if (!from.defined()) return;
  LEEWAY_CHECK(to.sizes() == from.sizes(), "all microbatches of a stage have the same size");
  to.copy_(from);
}

// The next graph of the slot writes where this one has its result.
at::Tensor kept(const at::Tensor& result) {
  return result.defined() ? result.clone() : at::Tensor();
}

}  // namespace

GraphedMicrobatches::GraphedMicrobatches(const at::Device& device, MicrobatchPasses passes)
    : device_(device), passes_(std::move(passes)), maker_(device) {}

GraphedMicrobatches::Slot& GraphedMicrobatches::add_slot(const Microbatch& first) {
  Slot& slot = slots_.emplace_back(device_);
  slot.input = buffer_like(first.input);
  slot.targets = buffer_like(first.targets);
  return slot;
}

Microbatch GraphedMicrobatches::put_into(Slot& slot, const Microbatch& microbatch) {
  write_to(slot.input, microbatch.input);
  write_to(slot.targets, microbatch.targets);
  return {.input = slot.input, .targets = slot.targets, .loss_options = microbatch.loss_options};
}

void GraphedMicrobatches::rehearse(const Version& version, const Microbatch& microbatch) {
  Slot& slot = add_slot(microbatch);
  Microbatch there = put_into(slot, microbatch);
  maker_.rehearse(slot.memory, [&] {
    const at::Tensor output = passes_.forward(version, there);
    const bool from_loss = slot.targets.defined();
    return passes_.backward(version, there, from_loss ? at::Tensor() : at::zeros_like(output));
  });
}

// One that has been used with this version before, if there is one.
GraphedMicrobatches::Slot& GraphedMicrobatches::free_slot(const Version& version,
                                                          const Microbatch& first) {
  const auto is_free = [](const Slot& slot) { return !slot.holds; };
  const auto fits = [&](const Slot& slot) {
    return is_free(slot) && slot.passes.contains(&version);
  };
  auto found = std::ranges::find_if(slots_, fits);
  if (found == slots_.end()) found = std::ranges::find_if(slots_, is_free);
  return found == slots_.end() ? add_slot(first) : *found;
}

at::Tensor GraphedMicrobatches::forward(MicrobatchId m, const Version& version,
                                        const Microbatch& microbatch) {
  LEEWAY_CHECK(is_rehearsed(), "the first microbatch is rehearsed");
  Slot& slot = free_slot(version, microbatch);
  slot.holds = m;
  Microbatch there = put_into(slot, microbatch);
  Pass& pass = slot.passes[&version];
  if (!pass.forward.is_made()) {
    pass.microbatch = std::move(there);
    pass.forward =
        maker_.make(slot.memory, [&] { return passes_.forward(version, pass.microbatch); });
  }
  LEEWAY_CHECK(pass.microbatch.loss_options.scale == microbatch.loss_options.scale,
               "a graph has the scale that it was made with");
  return kept(pass.forward.run());
}

MicrobatchGradient GraphedMicrobatches::backward(MicrobatchId m, const Version& version,
                                                 const at::Tensor& dy) {
  const auto found =
      std::ranges::find_if(slots_, [&](const Slot& slot) { return slot.holds == m; });
  LEEWAY_CHECK(found != slots_.end(), "backward without its forward");
  Slot& slot = *found;
  if (!slot.dy.defined()) slot.dy = buffer_like(dy);
  write_to(slot.dy, dy);
  Pass& pass = slot.passes.at(&version);
  if (!pass.backward.is_made()) {
    pass.backward = maker_.make(
        slot.memory, [&] { return passes_.backward(version, pass.microbatch, slot.dy); });
  }
  at::Tensor dx = kept(pass.backward.run());
  slot.holds.reset();
  return {.dx = std::move(dx), .loss = kept(pass.microbatch.loss)};
}

void GraphedMicrobatches::restart() {
  for (Slot& slot : slots_) {
    slot.holds.reset();
    // What a forward has saved for a backward that never came would keep its memory.
    std::erase_if(slot.passes, [](const auto& pass) { return !pass.second.backward.is_made(); });
  }
}

}  // namespace leeway
