#include "kernels/round_loops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/simd.h"
#include "kernels/bf16.h"

// For lambdas, whose call operator accepts no other form of the attribute.
#define LEEWAY_INLINE __attribute__((always_inline))

namespace leeway {
namespace {

// Parallel sums, whatever the vector width: a fixed order that vectorizes.
constexpr int64_t kSums = 16;
using Lanes = std::array<double, kSums>;

LEEWAY_SIMD_BODY double sum_of(const Lanes& lanes) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// Calls body(i, lane) for each of `count` elements; an element's lane depends only on its index.
template <class Body>
LEEWAY_SIMD_BODY void for_lanes(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    LEEWAY_INDEPENDENT
    for (int64_t lane = 0; lane < kSums; ++lane) body(i + lane, static_cast<size_t>(lane));
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) body(i, static_cast<size_t>(lane));
}

// Copies sixteen elements at a time: a few moves, no call.
template <class Element>
LEEWAY_SIMD_BODY void copy_run(const Element* from, int64_t length, Element* to) {
  int64_t i = 0;
  for (; i + kSums <= length; i += kSums) std::memcpy(to + i, from + i, kSums * sizeof(Element));
  for (; i < length; ++i) to[i] = from[i];
}

template <class Element>
LEEWAY_SIMD_BODY void fetch_ahead(const RunRange& range, int64_t run, const Element* flat) {
  constexpr auto kLineElements = static_cast<int64_t>(64 / sizeof(Element));
  constexpr int64_t kRunElements = 128;  // the hardware prefetches the rest of a longer run
  const int64_t ahead = run + std::max<int64_t>(1, kElementsAhead / range.granularity);
  if (ahead >= range.runs) return;
  const Element* const begin = flat + range.begin(ahead);
  const int64_t length = std::min(range.granularity, kRunElements);
  for (int64_t i = 0; i < length; i += kLineElements) __builtin_prefetch(begin + i);
}

// Calls body(run, offset in the flat buffer, position in the block, length) for each run of the
// range.
template <class Body>
LEEWAY_SIMD_BODY void for_runs(const RunRange& range, const Body& body) {
  int64_t run = range.first / range.granularity;
  int64_t skipped = range.first % range.granularity;
  for (int64_t done = 0; done < range.count(); ++run) {
    const int64_t length = std::min(range.granularity - skipped, range.count() - done);
    body(run, range.begin(run) + skipped, done, length);
    done += length;
    skipped = 0;
  }
}

template <class To, class From>
LEEWAY_SIMD_BODY To converted(From value) {
  if constexpr (std::is_same_v<To, uint16_t>) {
    return bf16_of(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <bool kKeepsSteps, bool kEma, bool kOuter, class Scalar>
LEEWAY_SIMD BlockSums merge_loop(const MergeConstants& constants, const MergeBlock<Scalar>& block) {
  const Scalar keep = static_cast<Scalar>(constants.ema_keep);
  const Scalar share = static_cast<Scalar>(1 - constants.ema_keep);
  const Scalar rate = static_cast<Scalar>(constants.outer_rate);
  const Scalar momentum = static_cast<Scalar>(constants.outer_momentum);
  Lanes drift = {};
  Lanes correction = {};
  const auto merge_run = [&](int64_t run, int64_t offset, int64_t done,
                             int64_t length) LEEWAY_INLINE {
    fetch_ahead(block.range, run, block.weights);
    if constexpr (kEma) fetch_ahead(block.range, run, block.ema);
    if constexpr (kOuter) fetch_ahead(block.range, run, block.anchor);
    if constexpr (kOuter) fetch_ahead(block.range, run, block.outer);
    const Scalar* const mean = block.mean + done;
    Scalar* const weights = block.weights + offset;
    const auto element = [&](int64_t i, size_t lane, Scalar step) LEEWAY_INLINE {
      Scalar target = mean[i];
      if constexpr (kOuter) {
        Scalar& anchor = block.anchor[offset + i];
        Scalar& outer = block.outer[offset + i];
        const Scalar distance = anchor - target;
        const Scalar velocity = momentum * outer + distance;
        target = anchor - rate * (distance + momentum * velocity);
        outer = velocity;
        anchor = target;
      }
      Scalar added = step;
      if constexpr (kEma) {
        added = keep * block.ema[offset + i] + share * step;
        block.ema[offset + i] = added;
      }
      const Scalar merged = kKeepsSteps ? target + added : target;
      const double change = static_cast<double>(merged - weights[i]);
      weights[i] = merged;
      drift[lane] += static_cast<double>(step) * static_cast<double>(step);
      correction[lane] += change * change;
    };
    const Scalar* const sent = block.sent + done;
    for_lanes(length, [&](int64_t i, size_t lane)
                          LEEWAY_INLINE { element(i, lane, weights[i] - sent[i]); });
  };
  for_runs(block.range, merge_run);
  return {.drift = sum_of(drift), .correction = sum_of(correction)};
}

// Nothing was sent, so there is no step to keep, and what has happened since the anchor was set is
// not one round's progress: the weights land on the mean. They may not even be finite before.
template <class Scalar>
LEEWAY_SIMD BlockSums follow_loop(const MergeConstants& constants,
                                  const MergeBlock<Scalar>& block) {
  const Scalar keep = static_cast<Scalar>(constants.ema_keep);
  Lanes correction = {};
  const auto follow_run = [&](int64_t, int64_t offset, int64_t done, int64_t length) LEEWAY_INLINE {
    const Scalar* const mean = block.mean + done;
    Scalar* const weights = block.weights + offset;
    for_lanes(length, [&](int64_t i, size_t lane) LEEWAY_INLINE {
      const double change = static_cast<double>(mean[i] - weights[i]);
      weights[i] = mean[i];
      correction[lane] += change * change;
    });
    if (block.anchor != nullptr) {
      std::copy_n(mean, length, block.anchor + offset);
      std::fill_n(block.outer + offset, length, Scalar{0});
    }
    if (block.ema != nullptr) {  // u = 0
      for (int64_t i = 0; i < length; ++i) block.ema[offset + i] *= keep;
    }
  };
  for_runs(block.range, follow_run);
  return {.drift = 0, .correction = sum_of(correction)};
}

template <bool kOwn, bool kPending, bool kMomentum, class Scalar>
LEEWAY_SIMD BlockSums steps_loop(const StepsConstants& constants, const StepsBlock<Scalar>& block) {
  const Scalar smoothing = static_cast<Scalar>(constants.smoothing);
  const Scalar gain = static_cast<Scalar>(constants.gain);
  const Scalar gain_keep = static_cast<Scalar>(constants.gain_smoothing);
  const Scalar gain_share = static_cast<Scalar>(1 - constants.gain_smoothing);
  const Scalar* const answer = block.answer;
  const Scalar* const own = block.own;
  Scalar* const weights = block.weights;
  Scalar* const common = block.common;
  Scalar* const flight = block.flight;
  Scalar* const pending = block.pending;
  Scalar* const momentum = block.momentum;
  Lanes drift = {};
  Lanes correction = {};
  for_lanes(block.count, [&](int64_t i, size_t lane) LEEWAY_INLINE {
    Scalar beyond = weights[i] - common[i];
    Scalar due = answer[i];
    if constexpr (kOwn) {
      const double sent = static_cast<double>(own[i]);
      drift[lane] += sent * sent;
      beyond -= own[i];
      due -= own[i];
      if (flight != nullptr) flight[i] -= own[i];
    }
    if constexpr (kPending) {
      const Scalar kept = smoothing * pending[i];
      pending[i] = kept + due;
      beyond += kept;
      beyond -= smoothing * pending[i];
    }
    common[i] += answer[i];
    if constexpr (kMomentum) {
      momentum[i] = gain_keep * momentum[i] + gain_share * answer[i];
      common[i] += gain * momentum[i];
    }
    const Scalar merged = common[i] + beyond;
    const double moved = static_cast<double>(merged - weights[i]);
    weights[i] = merged;
    correction[lane] += moved * moved;
  });
  return {.drift = sum_of(drift), .correction = sum_of(correction)};
}

template <bool kOwn, class Scalar>
BlockSums choose_steps_loop(const StepsConstants& constants, const StepsBlock<Scalar>& block) {
  const bool momentum = block.momentum != nullptr;
  if (block.pending == nullptr) {
    return momentum ? steps_loop<kOwn, false, true>(constants, block)
                    : steps_loop<kOwn, false, false>(constants, block);
  }
  return momentum ? steps_loop<kOwn, true, true>(constants, block)
                  : steps_loop<kOwn, true, false>(constants, block);
}

}  // namespace

LEEWAY_SIMD void deal_runs(const Dealing& dealing, int64_t first_group, int64_t groups,
                           int64_t* begins) {
  const Dealing own = dealing;
  for (int64_t i = 0; i < groups; ++i) begins[i] = dealt_begin(own, first_group + i);
}

template <class Element>
LEEWAY_SIMD void gather_runs(const RunRange& range, const Element* flat, Element* compact) {
  if (range.granularity == 1) {
    const int64_t* const begins = range.begins + (range.first - range.listed);
    const int64_t fetchable = std::min(range.count(), range.runs - range.first - kElementsAhead);
    int64_t i = 0;
    for (; i < fetchable; ++i) {
      __builtin_prefetch(flat + begins[i + kElementsAhead]);
      compact[i] = flat[begins[i]];
    }
    for (; i < range.count(); ++i) compact[i] = flat[begins[i]];
    return;
  }
  for_runs(range, [&](int64_t run, int64_t offset, int64_t done, int64_t length) LEEWAY_INLINE {
    fetch_ahead(range, run, flat);
    copy_run(flat + offset, length, compact + done);
  });
}

template <class Element>
LEEWAY_SIMD void scatter_runs(const RunRange& range, const Element* compact, Element* flat) {
  if (range.granularity == 1) {
    const int64_t* const begins = range.begins + (range.first - range.listed);
    for (int64_t i = 0; i < range.count(); ++i) flat[begins[i]] = compact[i];
    return;
  }
  for_runs(range, [&](int64_t, int64_t offset, int64_t done, int64_t length)
                      LEEWAY_INLINE { copy_run(compact + done, length, flat + offset); });
}

template <class From, class To>
LEEWAY_SIMD void convert_runs(const RunRange& range, const From* from, To* to) {
  if (range.granularity == 1) {
    const int64_t* const begins = range.begins + (range.first - range.listed);
    for (int64_t i = 0; i < range.count(); ++i) to[begins[i]] = converted<To>(from[begins[i]]);
    return;
  }
  for_runs(range, [&](int64_t run, int64_t offset, int64_t, int64_t length) LEEWAY_INLINE {
    fetch_ahead(range, run, to);
    const From* const own = from + offset;
    To* const target = to + offset;
    LEEWAY_INDEPENDENT
    for (int64_t i = 0; i < length; ++i) target[i] = converted<To>(own[i]);
  });
}

template <class Scalar>
BlockSums merge_block(const MergeConstants& constants, const MergeBlock<Scalar>& block) {
  if (block.sent == nullptr) return follow_loop(constants, block);
  const bool outer = block.anchor != nullptr;
  if (block.ema != nullptr) {
    return outer ? merge_loop<true, true, true>(constants, block)
                 : merge_loop<true, true, false>(constants, block);
  }
  if (constants.keeps_steps) {
    return outer ? merge_loop<true, false, true>(constants, block)
                 : merge_loop<true, false, false>(constants, block);
  }
  return outer ? merge_loop<false, false, true>(constants, block)
               : merge_loop<false, false, false>(constants, block);
}

template <class Scalar>
BlockSums merge_steps_block(const StepsConstants& constants, const StepsBlock<Scalar>& block) {
  return block.own == nullptr ? choose_steps_loop<false>(constants, block)
                              : choose_steps_loop<true>(constants, block);
}

template <class Scalar>
LEEWAY_SIMD void mean_block(const Scalar* const* values, int64_t replicas, int64_t count,
                            Scalar* mean) {
  std::array<double, kBlockElements> sums;
  for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] = 0;
  for (int64_t replica = 0; replica < replicas; ++replica) {
    const Scalar* const own = values[replica];
    for (int64_t i = 0; i < count; ++i) {
      sums[static_cast<size_t>(i)] += static_cast<double>(own[i]);
    }
  }
  const auto divisor = static_cast<double>(replicas);
  for (int64_t i = 0; i < count; ++i) {
    mean[i] = static_cast<Scalar>(sums[static_cast<size_t>(i)] / divisor);
  }
}

template <class Scalar>
LEEWAY_SIMD double squared_distance(const Scalar* left, const Scalar* right, int64_t count) {
  Lanes lanes = {};
  for_lanes(count, [&](int64_t i, size_t lane) LEEWAY_INLINE {
    const double distance = static_cast<double>(left[i]) - static_cast<double>(right[i]);
    lanes[lane] += distance * distance;
  });
  return sum_of(lanes);
}

template void gather_runs(const RunRange&, const uint16_t*, uint16_t*);
template void gather_runs(const RunRange&, const float*, float*);
template void gather_runs(const RunRange&, const double*, double*);
template void scatter_runs(const RunRange&, const uint16_t*, uint16_t*);
template void scatter_runs(const RunRange&, const float*, float*);
template void scatter_runs(const RunRange&, const double*, double*);
template void convert_runs(const RunRange&, const float*, float*);
template void convert_runs(const RunRange&, const float*, double*);
template void convert_runs(const RunRange&, const float*, uint16_t*);
template void convert_runs(const RunRange&, const double*, float*);
template void convert_runs(const RunRange&, const double*, double*);
template void convert_runs(const RunRange&, const double*, uint16_t*);

template BlockSums merge_block(const MergeConstants&, const MergeBlock<float>&);
template BlockSums merge_steps_block(const StepsConstants&, const StepsBlock<float>&);
template void mean_block(const float* const*, int64_t, int64_t, float*);
template double squared_distance(const float*, const float*, int64_t);

template BlockSums merge_block(const MergeConstants&, const MergeBlock<double>&);
template BlockSums merge_steps_block(const StepsConstants&, const StepsBlock<double>&);
template void mean_block(const double* const*, int64_t, int64_t, double*);
template double squared_distance(const double*, const double*, int64_t);

}  // namespace leeway
