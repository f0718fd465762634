#include "averaging/subset.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/round_loops.h"

namespace leeway {
namespace {

// If a round takes everything, runs only decide where chunks may be cut: a multiple of every wire
// format's block, and short enough to give a small stage's owners equal shares.
constexpr int64_t kWholeGranularity = 512;
constexpr int64_t kGroupsPerThread = 1 << 15;  // minimum: with fewer, a thread does not pay off

// 1 / 0.05 and 1 / (1.0 / 3) are 20 and 3 up to rounding, which must not add a part.
int64_t parts_of(double fraction) {
  LEEWAY_CHECK(fraction > 0 && fraction <= 1, "fraction is above 0 and at most 1");
  const double parts = std::ceil(1 / fraction * (1 - 1e-9));
  LEEWAY_CHECK(parts < 0x1p31, "rotations have 31 bits");
  return static_cast<int64_t>(parts);
}

int64_t runs_of(const CutOptions& options) {
  return (options.parameters + options.granularity - 1) / options.granularity;
}

Dealing dealing_of(const CutOptions& options, int64_t parts, int64_t round) {
  LEEWAY_CHECK(round >= 0, "rounds are counted from 0");
  const RandomKey key = {.seed = options.seed,
                         .stream = Stream::kSubset,
                         .name = static_cast<uint64_t>(options.stage.value)};
  return {.key = random_bits(key, static_cast<uint64_t>(round / parts)),
          .part = round % parts,
          .parts = parts,
          .granularity = options.granularity};
}

// The runs [first, last) of a chunk.
std::pair<int64_t, int64_t> chunk_runs(int64_t runs, int64_t chunk, int64_t chunks) {
  LEEWAY_CHECK(chunk >= 0 && chunk < chunks, "the chunk is one of the subset's chunks");
  return {runs * chunk / chunks, runs * (chunk + 1) / chunks};
}

// Where the part's run of the last group begins: possibly past the end, and possibly a short run.
// All groups before it are complete.
int64_t last_begin(const CutOptions& options, const Dealing& dealing) {
  int64_t begin = 0;
  deal_runs(dealing, (runs_of(options) - 1) / dealing.parts, 1, &begin);
  return begin;
}

}  // namespace

int64_t Subset::count() const {
  if (begins.empty()) return 0;
  const auto runs = static_cast<int64_t>(begins.size());
  return (runs - 1) * granularity + length(begins.size() - 1);
}

int64_t Subset::length(size_t run) const { return std::min(granularity, parameters - begins[run]); }

Subset Subset::chunk(int64_t chunk, int64_t chunks) const {
  const auto [first, last] = chunk_runs(static_cast<int64_t>(begins.size()), chunk, chunks);
  Subset part = {.granularity = granularity, .parameters = parameters, .begins = {}};
  part.begins.assign(begins.begin() + first, begins.begin() + last);
  return part;
}

Cut::Cut(const CutOptions& options) : options_(options), parts_(parts_of(options.fraction)) {
  LEEWAY_CHECK(options.parameters >= 0, "the parameter count is not negative");
  LEEWAY_CHECK(options.granularity > 0, "a run has coordinates");
  if (parts_ == 1) options_.granularity = kWholeGranularity;
}

Subset Cut::subset(int64_t round) const {
  Subset subset = {
      .granularity = options_.granularity, .parameters = options_.parameters, .begins = {}};
  if (options_.parameters == 0) return subset;
  const Dealing dealing = dealing_of(options_, parts_, round);
  const int64_t groups = (runs_of(options_) + parts_ - 1) / parts_;
  const int64_t last = last_begin(options_, dealing);
  const bool has_last = last < options_.parameters;
  subset.begins.resize(static_cast<size_t>(has_last ? groups : groups - 1));
  at::parallel_for(0, groups - 1, kGroupsPerThread, [&](int64_t first, int64_t end) {
    deal_runs(dealing, first, end - first, subset.begins.data() + first);
  });
  if (has_last) subset.begins.back() = last;
  return subset;
}

int64_t Cut::count(int64_t round) const {
  if (options_.parameters == 0) return 0;
  const Dealing dealing = dealing_of(options_, parts_, round);
  const int64_t complete = (runs_of(options_) - 1) / parts_ * options_.granularity;
  const int64_t left = options_.parameters - last_begin(options_, dealing);
  return complete + std::clamp<int64_t>(left, 0, options_.granularity);
}

int64_t Cut::count(int64_t round, int64_t chunk, int64_t chunks) const {
  const int64_t all = count(round);
  const int64_t runs = (all + options_.granularity - 1) / options_.granularity;
  // Only the very last run may be short.
  const auto before = [&](int64_t run) { return std::min(run * options_.granularity, all); };
  const auto [first, last] = chunk_runs(runs, chunk, chunks);
  return before(last) - before(first);
}

}  // namespace leeway
