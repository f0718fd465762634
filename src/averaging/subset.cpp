#include "averaging/subset.h"

#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace leeway {
namespace {

// If a round takes everything, runs only decide where chunks may be cut: a multiple of every wire
// format's block, and short enough to give a small stage's owners equal shares.
constexpr int64_t kWholeGranularity = 512;

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

}  // namespace

Cut::Cut(const CutOptions& options) : options_(options), parts_(parts_of(options.fraction)) {
  LEEWAY_CHECK(options.parameters >= 0, "the parameter count is not negative");
  LEEWAY_CHECK(options.granularity > 0, "a run has coordinates");
  if (parts_ == 1) options_.granularity = kWholeGranularity;
}

Subset Cut::subset(int64_t round) const {
  Subset subset = {.dealing = dealing_of(options_, parts_, round),
                   .first_group = 0,
                   .runs = (runs_of(options_) + parts_ - 1) / parts_,
                   .parameters = options_.parameters};
  // All groups are complete but the last one, where the part's run may be past the end.
  if (subset.runs > 0 && subset.begin(subset.runs - 1) >= options_.parameters) --subset.runs;
  return subset;
}

int64_t Cut::count(int64_t round) const { return subset(round).count(); }

int64_t Cut::count(int64_t round, int64_t chunk, int64_t chunks) const {
  return subset(round).chunk(chunk, chunks).count();
}

}  // namespace leeway
