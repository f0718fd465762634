// The arithmetic of a common model (averaging/lowbit.h), with the contributions that are under way.
#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/hash.h"
#include "compute/averaging_compute.h"

namespace leeway {

at::Tensor AveragingCompute::decode_steps(const LaneState& lane, const at::Tensor& encoded,
                                          int64_t count) const {
  return leeway::decode_steps(lane.options.lowbit.wire, encoded, count,
                              stage_.weights().scalar_type());
}

at::Tensor AveragingCompute::pack_chunk(const LaneState& lane, int64_t chunk,
                                        const at::Tensor& code) const {
  return pack(lane.options.lowbit.wire, code, lane.cut.count(0, chunk, lane.options.chunks));
}

// Own contributions to a chunk, as they were encoded, in the order of their numbers.
std::vector<at::Tensor> AveragingCompute::under_way(const LaneState& lane, int64_t chunk) {
  std::vector<at::Tensor> parts;
  for (const auto& [number, chunks] : lane.steps) {
    const auto part = chunks.find(chunk);
    if (part != chunks.end()) parts.push_back(part->second);
  }
  return parts;
}

// An own contribution that is no longer under way, as it was encoded.
AveragingCompute::TakenSteps AveragingCompute::take_steps(LaneState& lane, int64_t number,
                                                          int64_t chunk) {
  const auto sent = lane.steps.find(number);
  LEEWAY_CHECK(sent != lane.steps.end(), "a contribution is answered once");
  const auto part = sent->second.extract(chunk);
  LEEWAY_CHECK(!part.empty(), "each chunk of a contribution is answered once");
  if (sent->second.empty()) lane.steps.erase(sent);
  return {.sent = part.mapped(), .counted = !lane.uncounted.contains(chunk)};
}

// What sums and differences have left of contributions that are all settled.
void AveragingCompute::forget_rounding(LaneState& lane, int64_t chunk) {
  if (under_way(lane, chunk).empty()) clear(chunk_of(lane, 0, chunk), lane.lowbit.flight);
}

// To count what is under way takes a buffer that is read and written. A few are cheaper to decode.
at::Tensor AveragingCompute::contribute_chunk(LaneState& lane, int64_t chunk, const RandomKey& key,
                                              bool exact) {
  LowbitOptions options = lane.options.lowbit;
  const Subset subset = chunk_of(lane, 0, chunk);
  const at::Tensor& weights = stage_.weights();
  const std::vector<at::Tensor> sent = under_way(lane, chunk);
  if (sent.empty()) lane.uncounted.insert(chunk);
  if (lane.uncounted.contains(chunk)) {
    if (sent.size() <= kCodesInOnePass) {
      return exact ? unsent_steps(options, subset, weights, lane.lowbit, sent)
                   : contribute_uncounted(options, subset, key, weights, lane.lowbit, sent);
    }
    for (const at::Tensor& part : sent) {
      count_steps(subset, decode_steps(lane, part, subset.count()), lane.lowbit);
    }
    lane.uncounted.erase(chunk);
  }
  if (exact) options.wire = WireFormat::kF32;
  return leeway::contribute_steps(options, subset, key, weights, lane.lowbit);
}

std::vector<at::Tensor> AveragingCompute::contribute_steps(Lane which, int64_t number,
                                                           const std::vector<bool>& sends,
                                                           bool exact) {
  LaneState& lane = at(which);
  std::vector<at::Tensor> encoded(sends.size());
  for (int64_t chunk = 0; chunk < lane.options.chunks; ++chunk) {
    const auto at = static_cast<size_t>(chunk);
    if (!sends[at]) continue;
    const RandomKey key = rounding_key(lane, number, chunk, /*answer=*/false);
    const at::Tensor code = contribute_chunk(lane, chunk, key, exact);
    lane.steps[number][chunk] = code;
    encoded[at] = pack_chunk(lane, chunk, code);
  }
  return encoded;
}

std::vector<at::Tensor> AveragingCompute::sent_steps(Lane which,
                                                     const std::vector<int64_t>& numbers) const {
  const LaneState& lane = at(which);
  std::vector<at::Tensor> parts(numbers.size());
  for (size_t chunk = 0; chunk < numbers.size(); ++chunk) {
    if (numbers[chunk] == 0) continue;
    const auto at = static_cast<int64_t>(chunk);
    parts[chunk] = pack_chunk(lane, at, lane.steps.at(numbers[chunk]).at(at));
  }
  return parts;
}

AveragingCompute::Reduced AveragingCompute::reduce_steps(Lane which,
                                                         const std::vector<PartId>& parts,
                                                         int64_t chunk,
                                                         const std::vector<at::Tensor>& payloads,
                                                         int64_t members) {
  LaneState& lane = at(which);
  const Subset subset = chunk_of(lane, 0, chunk);
  LowbitOptions options = lane.options.lowbit;
  std::vector<at::Tensor> contributions;
  for (const at::Tensor& payload : payloads) {
    contributions.push_back(unpack(options.wire, payload, subset.count()));
  }
  const bool exact = std::ranges::any_of(payloads, [&](const at::Tensor& part) {
    return part.scalar_type() == stage_.weights().scalar_type();
  });
  if (exact) {  // then so is the answer
    options.wire = WireFormat::kF32;
    for (at::Tensor& part : contributions) part = decode_steps(lane, part, subset.count());
  }
  // By what is in it: the number depends on where sessions ended.
  const uint64_t name = hash_bytes(std::as_bytes(std::span(parts)));
  const RandomKey key = rounding_key(lane, static_cast<int64_t>(name >> 1), chunk, /*answer=*/true);
  const ReducedSteps steps =
      leeway::reduce_steps(options, subset, contributions, members, key, lane.lowbit);
  Reduced reduced = reduced_of(subset.count(), steps.sums);
  reduced.answer = pack(options.wire, steps.answer, subset.count());
  return reduced;
}

LateNorms AveragingCompute::merge_steps(Lane which, int64_t chunk, const at::Tensor& answer,
                                        const std::vector<int64_t>& in,
                                        const std::vector<int64_t>& lost) {
  LaneState& lane = at(which);
  const Subset subset = chunk_of(lane, 0, chunk);
  const auto decoded = [&](const at::Tensor& sent) {
    return decode_steps(lane, sent, subset.count());
  };
  const WireFormat wire = lane.options.lowbit.wire;
  bool counted = false;
  for (const int64_t number : lost) {
    const TakenSteps part = take_steps(lane, number, chunk);
    if (part.counted) take_back_steps(subset, decoded(part.sent), lane.lowbit);
    counted |= part.counted;
  }
  if (!answer.defined()) {
    if (counted) forget_rounding(lane, chunk);
    return {};
  }
  at::Tensor own;
  for (const int64_t number : in) {
    const TakenSteps part = take_steps(lane, number, chunk);
    // One is merged as it is; a sum of several has no code.
    own = own.defined() ? decoded(own) + decoded(part.sent) : part.sent;
    counted |= part.counted;
  }
  const MergeSums sums = leeway::merge_steps(lane.options.lowbit,
                                             {.subset = subset,
                                              .answer = unpack(wire, answer, subset.count()),
                                              .own = own,
                                              .counted = counted,
                                              .weights = stage_.weights(),
                                              .compute = stage_.writable_copy()},
                                             lane.lowbit);
  if (counted) forget_rounding(lane, chunk);
  return norms_of(sums);
}

at::Tensor AveragingCompute::common_chunk(Lane which, int64_t chunk) const {
  const LaneState& lane = at(which);
  const Subset subset = chunk_of(lane, 0, chunk);
  at::Tensor common = gather(subset, lane.lowbit.common);
  if (!lane.lowbit.momentum.defined()) return common;
  return at::cat({common, gather(subset, lane.lowbit.momentum)});
}

bool AveragingCompute::fits_whole(Lane which, int64_t chunk, const at::Tensor& payload) const {
  const LaneState& lane = at(which);
  const int64_t count = lane.cut.count(0, chunk, lane.options.chunks);
  return payload.dim() == 1 && payload.scalar_type() == stage_.weights().scalar_type() &&
         payload.numel() == (lane.lowbit.momentum.defined() ? 2 * count : count);
}

void AveragingCompute::replace_common(Lane which, int64_t chunk, const at::Tensor& whole,
                                      const std::vector<int64_t>& in,
                                      const std::vector<int64_t>& lost) {
  LaneState& lane = at(which);
  const Subset subset = chunk_of(lane, 0, chunk);
  const int64_t count = subset.count();
  at::Tensor own = own_steps(lane.options.lowbit, subset, stage_.weights(), lane.lowbit);
  for (const std::vector<int64_t>* numbers : {&in, &lost}) {
    for (const int64_t number : *numbers) {
      const TakenSteps taken = take_steps(lane, number, chunk);
      const at::Tensor part = decode_steps(lane, taken.sent, count);
      if (taken.counted) take_back_steps(subset, part, lane.lowbit);
      if (numbers == &in) own = own - part;
    }
  }
  forget_rounding(lane, chunk);
  const at::Tensor common = whole.narrow(0, 0, count);
  const at::Tensor weights = common + own;
  scatter(subset, common, lane.lowbit.common);
  scatter(subset, weights, stage_.weights());
  if (const at::Tensor copy = stage_.writable_copy(); copy.defined()) {
    scatter(subset, weights, copy);
  }
  if (lane.lowbit.momentum.defined()) {
    scatter(subset, whole.narrow(0, count, count), lane.lowbit.momentum);
  }
  if (lane.lowbit.pending.defined()) clear(subset, lane.lowbit.pending);
}

void AveragingCompute::write_off_residual(Lane which, int64_t chunk) {
  LaneState& lane = at(which);
  clear(chunk_of(lane, 0, chunk), lane.lowbit.residual);
}

std::vector<SentSteps> AveragingCompute::sent() const {
  std::vector<SentSteps> sent;
  for (const LaneState& lane : lanes_) {
    for (const auto& [number, chunks] : lane.steps) {
      for (const auto& [chunk, payload] : chunks) {
        sent.push_back({.chunk = chunk, .number = number, .payload = payload});
      }
    }
  }
  return sent;
}

int64_t AveragingCompute::chunk_values(Lane which, int64_t chunk) const {
  const LaneState& lane = at(which);
  return lane.cut.count(0, chunk, lane.options.chunks);
}

uint64_t AveragingCompute::chunk_hash(Lane which, int64_t chunk) const {
  return hash_of_values(common_chunk(which, chunk));
}

}  // namespace leeway
