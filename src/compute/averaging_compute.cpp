#include "compute/averaging_compute.h"

#include <algorithm>
#include <utility>

#include "averaging/newcomer.h"
#include "base/check.h"
#include "base/hash.h"

namespace leeway {

uint64_t hash_of_values(const at::Tensor& tensor) {
  const at::Tensor values = tensor.cpu().contiguous();
  return hash_bytes({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
}

AveragingCompute::AveragingCompute(const std::vector<LaneOptions>& lanes, ReplicaId replica,
                                   Stage& stage)
    : replica_(replica), stage_(stage) {
  for (const LaneOptions& options : lanes) {
    LaneState lane = {.options = options, .cut = Cut(options.cut), .merge = {}, .lowbit = {}};
    if (options.payload == RoundPayload::kWeights) {
      lane.merge = make_merge_buffers(options.merge, stage.weights());
    }
    if (options.payload == RoundPayload::kSteps) {
      lane.lowbit = make_lowbit_buffers(options.lowbit, stage.weights());
    }
    lanes_.push_back(std::move(lane));
  }
}

AveragingCompute::LaneState& AveragingCompute::at(Lane lane) {
  return const_cast<LaneState&>(std::as_const(*this).at(lane));
}

const AveragingCompute::LaneState& AveragingCompute::at(Lane lane) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const LaneState& l) { return l.options.lane == lane; });
  LEEWAY_CHECK(found != lanes_.end(), "the lane belongs to this run");
  return *found;
}

Subset AveragingCompute::chunk_of(const LaneState& lane, int64_t round, int64_t chunk) const {
  return lane.cut.subset(round).chunk(chunk, lane.options.chunks);
}

// Every rounding has its own key, so that all drivers give the same bits.
RandomKey AveragingCompute::rounding_key(const LaneState& lane, int64_t round, int64_t chunk,
                                         bool answer) const {
  const auto whose = answer ? uint64_t{0} : static_cast<uint64_t>(replica_.value) + 1;
  const auto stage = static_cast<uint64_t>(lane.options.cut.stage.value);
  const uint64_t place = (stage * 1024 + whose) * kLanes + static_cast<uint64_t>(lane.options.lane);
  const auto chunks = static_cast<uint64_t>(lane.options.chunks);
  const uint64_t part = static_cast<uint64_t>(round) * chunks + static_cast<uint64_t>(chunk);
  const RandomKey names = {
      .seed = lane.options.cut.seed, .stream = Stream::kRounding, .name = place};
  return {
      .seed = lane.options.cut.seed, .stream = Stream::kRounding, .name = random_bits(names, part)};
}

std::vector<at::Tensor> AveragingCompute::contribute(Lane which, int64_t round) {
  LaneState& lane = at(which);
  const bool weights = lane.options.payload == RoundPayload::kWeights;
  Flight& flight = lane.flights[round];
  std::vector<at::Tensor> encoded;
  for (int64_t chunk = 0; chunk < lane.options.chunks; ++chunk) {
    const Subset subset = chunk_of(lane, round, chunk);
    const RandomKey key = rounding_key(lane, round, chunk, /*answer=*/false);
    const at::Tensor values = gather(subset, weights ? stage_.weights() : stage_.gradients());
    encoded.push_back(encode(lane.options.wire, values, key));
    if (weights) flight.sent[chunk] = values;
  }
  return encoded;
}

// On a GPU it turns out later which parts were not finite: they are left out there.
AveragingCompute::Reduced AveragingCompute::reduced_of(int64_t count, const at::Tensor& sums) {
  Reduced reduced = {.answer = {},
                     .norms = {.count = count, .reduction = true, .sums = Readout(sums)}};
  if (reduced.norms.sums.here()) reduced.refused = reduced.norms.refused();
  return reduced;
}

LateNorms AveragingCompute::norms_of(const MergeSums& merged) {
  return {.count = merged.count, .sums = Readout(merged.sums)};
}

AveragingCompute::Reduced AveragingCompute::reduce(Lane which, int64_t round, int64_t chunk,
                                                   const std::vector<at::Tensor>& parts,
                                                   bool awaited) {
  LaneState& lane = at(which);
  const Subset subset = chunk_of(lane, round, chunk);
  const at::ScalarType type = stage_.weights().scalar_type();
  std::vector<at::Tensor> values;
  for (const at::Tensor& part : parts) {
    values.push_back(decode(lane.options.wire, part, subset.count(), type));
  }
  const RandomKey key = rounding_key(lane, round, chunk, /*answer=*/true);
  const FiniteMean mean = mean_of_finite(values);
  Reduced reduced = reduced_of(subset.count(), mean.sums);
  if (reduced.refused.size() == values.size()) {
    if (!awaited) return reduced;
    reduced.refused.clear();
  }
  reduced.answer = encode(lane.options.wire, mean.mean, key);
  return reduced;
}

LateNorms AveragingCompute::merge(Lane which, int64_t round, int64_t chunk,
                                  const at::Tensor& answer) {
  LaneState& lane = at(which);
  const Subset subset = chunk_of(lane, round, chunk);
  const at::Tensor mean =
      decode(lane.options.wire, answer, subset.count(), stage_.weights().scalar_type());
  at::Tensor sent;
  if (const auto flight = lane.flights.find(round); flight != lane.flights.end()) {
    if (const auto own = flight->second.sent.extract(chunk); own) sent = own.mapped();
    if (flight->second.sent.empty()) lane.flights.erase(flight);
  }
  if (lane.options.payload == RoundPayload::kGradients) {
    scatter(subset, mean, stage_.gradients());
    lane.flights.erase(round);
    return {.count = subset.count()};
  }
  return norms_of(leeway::merge(lane.options.merge,
                                {.subset = subset,
                                 .round = round,
                                 .mean = mean,
                                 .sent = sent,
                                 .weights = stage_.weights(),
                                 .compute = stage_.writable_copy()},
                                lane.merge));
}

at::Tensor AveragingCompute::common_model() const {
  for (const LaneState& lane : lanes_) {
    if (lane.lowbit.common.defined()) return lane.lowbit.common;
  }
  return {};
}

at::Tensor AveragingCompute::shared_model() const {
  for (const LaneState& lane : lanes_) {
    if (lane.options.payload == RoundPayload::kGradients) return stage_.weights();
  }
  return common_model();
}

void AveragingCompute::restart() {
  for (LaneState& lane : lanes_) {
    lane.flights.clear();
    lane.steps.clear();
    lane.uncounted.clear();
  }
  const WeightsAndBuffers now = {.weights = stage_.weights(), .buffers = buffers()};
  const WeightsAndBuffers fresh = newcomer_from(now, NewcomerStarts::kAsFollower);
  for (size_t i = 0; i < now.buffers.size(); ++i) {
    now.buffers[i].second.copy_(fresh.buffers[i].second);
  }
  if (common_model().defined()) stage_.load_weights(fresh.weights);
}

void AveragingCompute::forget(Lane which, int64_t round) { at(which).flights.erase(round); }

bool AveragingCompute::fits(Lane which, int64_t round, int64_t chunk,
                            const at::Tensor& encoded) const {
  const LaneState& lane = at(which);
  const int64_t count = lane.cut.count(round, chunk, lane.options.chunks);
  const bool steps = lane.options.payload == RoundPayload::kSteps;
  if (steps && is_encoding(WireFormat::kF32, encoded, count, stage_.weights().scalar_type())) {
    return true;
  }
  return is_packed(lane.options.wire, encoded, count, stage_.weights().scalar_type());
}

std::vector<std::string> AveragingCompute::buffer_names(const std::vector<LaneOptions>& lanes) {
  std::vector<std::string> names;
  const auto add = [&](const char* name, bool has) {
    if (has) names.emplace_back(name);
  };
  for (const LaneOptions& lane : lanes) {
    const bool weights = lane.payload == RoundPayload::kWeights;
    const bool steps = lane.payload == RoundPayload::kSteps;
    add(kEmaBuffer, weights && lane.merge.has_ema());
    add(kAnchorBuffer, weights && lane.merge.has_outer());
    add(kOuterBuffer, weights && lane.merge.has_outer());
    add(kCommonBuffer, steps);
    add(kFlightBuffer, steps);
    add(kPendingBuffer, steps && lane.lowbit.smoothing != 0);
    add(kMomentumBuffer, steps && lane.lowbit.gain != 0);
    add(kResidualBuffer, steps);
  }
  return names;
}

std::vector<std::pair<std::string, at::Tensor>> AveragingCompute::buffers() const {
  std::vector<std::pair<std::string, at::Tensor>> found;
  const auto add = [&](const char* name, const at::Tensor& buffer) {
    if (buffer.defined()) found.emplace_back(name, buffer);
  };
  for (const LaneState& lane : lanes_) {
    add(kEmaBuffer, lane.merge.ema);
    add(kAnchorBuffer, lane.merge.anchor);
    add(kOuterBuffer, lane.merge.outer);
    add(kCommonBuffer, lane.lowbit.common);
    add(kFlightBuffer, lane.lowbit.flight);
    add(kPendingBuffer, lane.lowbit.pending);
    add(kMomentumBuffer, lane.lowbit.momentum);
    add(kResidualBuffer, lane.lowbit.residual);
  }
  return found;
}

int64_t AveragingCompute::buffer_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, buffer] : buffers()) bytes += static_cast<int64_t>(buffer.nbytes());
  return bytes;
}

int64_t AveragingCompute::flight_bytes() const {
  int64_t bytes = 0;
  for (const LaneState& lane : lanes_) {
    for (const auto& [round, flight] : lane.flights) {
      for (const auto& [chunk, sent] : flight.sent) bytes += static_cast<int64_t>(sent.nbytes());
    }
    for (const auto& [number, chunks] : lane.steps) {
      for (const auto& [chunk, sent] : chunks) bytes += static_cast<int64_t>(sent.nbytes());
    }
  }
  return bytes;
}

}  // namespace leeway
