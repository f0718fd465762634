// What a worker begins with that takes its place in a stage beside others, from the state of one
// that is there: a replica that joins, comes back or is cloned. Each method says here what a
// newcomer must not take over as it is.
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace leeway {

// Names of averaging's flat buffers, in states and checkpoints.
inline constexpr const char* kEmaBuffer = "averaging_ema";
inline constexpr const char* kAnchorBuffer = "averaging_anchor";
inline constexpr const char* kOuterBuffer = "averaging_outer";
inline constexpr const char* kCommonBuffer = "averaging_common";
inline constexpr const char* kFlightBuffer = "averaging_flight";
inline constexpr const char* kPendingBuffer = "averaging_pending";
inline constexpr const char* kMomentumBuffer = "averaging_momentum";
inline constexpr const char* kResidualBuffer = "averaging_residual";
bool is_averaging_buffer(const std::string& name);

using NamedBuffers = std::vector<std::pair<std::string, at::Tensor>>;

// Null: there is none of this name.
const at::Tensor* find_buffer(const NamedBuffers& buffers, const std::string& name);
at::Tensor* find_buffer(NamedBuffers& buffers, const std::string& name);

// A stage's, or a whole replica's: flat, all of one size.
struct WeightsAndBuffers {
  at::Tensor weights;
  NamedBuffers buffers;  // averaging's, and any others
};

// Whether a newcomer begins in the same round as its donor, with weights as new as the donor's, or
// comes to a fleet that has gone on: then it follows for a cycle before it counts.
enum class NewcomerStarts { kWithDonor, kAsFollower };

// `sparse`, `diloco`: a follower's anchor is where it starts, without outer momentum and ema; with
// its donor, a newcomer shares all three. `lowbit`: the common model, without steps of its own that
// nobody has, and without a residual, which belongs to the owner. Other buffers are the donor's.
// What does not change is not copied.
WeightsAndBuffers newcomer_from(const WeightsAndBuffers& donor, NewcomerStarts starts);

// A state with exactly these buffers of averaging: where a method is new to a run, as it begins
// (the anchor and the common model at the weights, all else zero), and without those that are no
// longer used.
WeightsAndBuffers with_averaging_buffers(const WeightsAndBuffers& state,
                                         std::span<const std::string> names);

}  // namespace leeway
