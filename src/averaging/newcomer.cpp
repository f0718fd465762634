#include "averaging/newcomer.h"

#include <algorithm>
#include <utility>

namespace leeway {
namespace {

at::Tensor fresh_buffer(const std::string& name, const at::Tensor& weights) {
  const bool begins_there = name == kAnchorBuffer || name == kCommonBuffer;
  return begins_there ? weights.clone() : at::zeros_like(weights);
}

}  // namespace

const at::Tensor* find_buffer(const NamedBuffers& buffers, const std::string& name) {
  const auto found = std::ranges::find(buffers, name, &NamedBuffers::value_type::first);
  return found == buffers.end() ? nullptr : &found->second;
}

at::Tensor* find_buffer(NamedBuffers& buffers, const std::string& name) {
  return const_cast<at::Tensor*>(find_buffer(std::as_const(buffers), name));
}

bool is_averaging_buffer(const std::string& name) { return name.starts_with("averaging_"); }

WeightsAndBuffers newcomer_from(const WeightsAndBuffers& donor, NewcomerStarts starts) {
  WeightsAndBuffers newcomer = donor;
  if (const at::Tensor* const common = find_buffer(donor.buffers, kCommonBuffer)) {
    newcomer.weights = *common;
  }
  const bool follows = starts == NewcomerStarts::kAsFollower;
  for (auto& [name, buffer] : newcomer.buffers) {
    const bool own = name == kFlightBuffer || name == kPendingBuffer || name == kResidualBuffer;
    const bool of_a_round = name == kAnchorBuffer || name == kOuterBuffer || name == kEmaBuffer;
    if (own || (of_a_round && follows)) buffer = fresh_buffer(name, newcomer.weights);
  }
  return newcomer;
}

WeightsAndBuffers with_averaging_buffers(const WeightsAndBuffers& state,
                                         std::span<const std::string> names) {
  WeightsAndBuffers fitted = {.weights = state.weights, .buffers = {}};
  for (const auto& named : state.buffers) {
    if (!is_averaging_buffer(named.first)) fitted.buffers.push_back(named);
  }
  for (const std::string& name : names) {
    const at::Tensor* const kept = find_buffer(state.buffers, name);
    fitted.buffers.emplace_back(name, kept ? *kept : fresh_buffer(name, state.weights));
  }
  return fitted;
}

}  // namespace leeway
