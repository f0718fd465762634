#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "../../support/subsets.h"
#include "averaging/subset.h"

namespace leeway {
namespace {

CutOptions any_cut() {
  CutOptions options;
  options.seed = *rc::gen::arbitrary<uint64_t>();
  options.stage = StageId{*rc::gen::inRange<int64_t>(0, 64)};
  options.parameters = *rc::gen::inRange<int64_t>(1, 6000);
  options.fraction = *rc::gen::inRange(1, 101) / 100.0;
  options.granularity = *rc::gen::element<int64_t>(1, 2, 3, 16, 64, 100, 5000);
  return options;
}

int64_t any_round() { return *rc::gen::inRange<int64_t>(0, 1'000'000); }

RC_GTEST_PROP(Cut, PartsOfACycleAreDisjointAndCoverEverything, ()) {
  const CutOptions options = any_cut();
  const Cut cut(options);
  const int64_t first = any_round() / cut.parts() * cut.parts();
  std::vector<int> visits(static_cast<size_t>(options.parameters));
  for (int64_t part = 0; part < cut.parts(); ++part) {
    for (const int64_t i : coordinates_of(cut.subset(first + part))) {
      ++visits[static_cast<size_t>(i)];
    }
  }
  RC_ASSERT(std::ranges::all_of(visits, [](int count) { return count == 1; }));
}

RC_GTEST_PROP(Cut, PartsDifferByAtMostOneRun, ()) {
  const CutOptions options = any_cut();
  const Cut cut(options);
  const int64_t first = any_round() / cut.parts() * cut.parts();
  int64_t fewest = options.parameters;
  int64_t most = 0;
  for (int64_t part = 0; part < cut.parts(); ++part) {
    const int64_t runs = cut.subset(first + part).runs;
    fewest = std::min(fewest, runs);
    most = std::max(most, runs);
  }
  RC_ASSERT(most - fewest <= 1);
}

RC_GTEST_PROP(Cut, IsAPureFunctionAndCountsItsCoordinates, ()) {
  const CutOptions options = any_cut();
  const int64_t round = any_round();
  const Subset subset = Cut(options).subset(round);
  RC_ASSERT(begins_of(subset) == begins_of(Cut(options).subset(round)));
  const std::vector<int64_t> coordinates = coordinates_of(subset);
  RC_ASSERT(std::ranges::is_sorted(coordinates));
  RC_ASSERT(subset.count() == static_cast<int64_t>(coordinates.size()));
  RC_ASSERT(Cut(options).count(round) == subset.count());
}

RC_GTEST_PROP(Subset, ChunksTogetherAreTheSubset, ()) {
  const Cut cut(any_cut());
  const int64_t round = any_round();
  const Subset subset = cut.subset(round);
  const int64_t chunks = *rc::gen::inRange<int64_t>(1, 12);
  std::vector<int64_t> together;
  int64_t count = 0;
  for (int64_t i = 0; i < chunks; ++i) {
    const Subset chunk = subset.chunk(i, chunks);
    const std::vector<int64_t> own = coordinates_of(chunk);
    together.insert(together.end(), own.begin(), own.end());
    count += chunk.count();
    RC_ASSERT(cut.count(round, i, chunks) == chunk.count());
    const int64_t share = subset.count() / chunks;
    RC_ASSERT(std::abs(chunk.count() - share) <= 2 * subset.granularity());
  }
  RC_ASSERT(together == coordinates_of(subset));
  RC_ASSERT(count == subset.count());
}

RC_GTEST_PROP(Gather, TakesTheCoordinatesAndScatterPutsThemBack, ()) {
  const CutOptions options = any_cut();
  const int64_t chunks = *rc::gen::inRange<int64_t>(1, 4);
  const Subset subset = Cut(options).subset(any_round()).chunk(chunks - 1, chunks);
  const auto type = *rc::gen::element(at::kFloat, at::kDouble, at::kBFloat16);
  at::manual_seed(*rc::gen::arbitrary<uint64_t>());
  const at::Tensor flat = at::randn({options.parameters}, at::kDouble).to(type);
  const at::Tensor index = at::tensor(coordinates_of(subset), at::kLong);

  const at::Tensor values = gather(subset, flat);
  RC_ASSERT(at::equal(values, flat.index_select(0, index)));

  // From fp64: rounded once, to the type of the buffer, and nothing else is touched.
  const at::Tensor fresh = at::randn({subset.count()}, at::kDouble);
  const at::Tensor expected = flat.index_copy(0, index, fresh.to(type));
  scatter(subset, fresh, flat);
  RC_ASSERT(at::equal(flat, expected));

  clear(subset, flat);
  RC_ASSERT(at::equal(flat, expected.index_fill(0, index, 0)));
}

}  // namespace
}  // namespace leeway
