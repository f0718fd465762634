// What a round costs a worker apart from the network: listing its coordinates, in nanoseconds per
// coordinate (one thread), and gather, encode, decode and merge (ema, outer momentum, an fp32
// compute copy) against a plain copy that reads and writes as many bytes, with the same threads, in
// the same run. Bytes are those that each step must read and write, not whole cache lines: a
// twentieth of the weights, picked one by one, touches nearly every line and cannot come close.
//
//   averaging_bench [million parameters, 100 if not given]
//
// prints, for example
//   runs of 64, subset            0.010 ns a coordinate
//   exchange                       GB/s  copy GB/s  ratio  peak MB
//   runs of 64, bf16                5.6        8.1   0.69     2569
//
// and what a message of lowbit costs besides, with one thread: packing its ternary blocks, and
// unpacking them, beside a copy of what goes in and comes out.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "averaging/merge.h"
#include "averaging/subset.h"
#include "averaging/wire.h"
#include "cli/large_pages.h"
#include "kernels/blocks.h"
#include "measure.h"

namespace {

using namespace leeway;

constexpr int64_t kRounds = 9;
constexpr double kFraction = 0.05;

// Reads half of the bytes and writes the other half, cycling through large buffers.
void copy_around(int64_t bytes, const at::Tensor& from, const at::Tensor& to) {
  const auto size = static_cast<int64_t>(from.nbytes());
  for (int64_t left = bytes / 2; left > 0; left -= size) {
    plain_copy(from, to, std::min(left, size));
  }
}

struct State {
  MergeOptions options = {.outer_momentum = 0.5};
  at::Tensor weights;
  at::Tensor compute;
  MergeBuffers buffers;
  at::Tensor copy_target;
};

Cut cut_of(int64_t parameters, int64_t granularity) {
  return Cut(
      {.seed = 1, .parameters = parameters, .fraction = kFraction, .granularity = granularity});
}

// As a pass over the weights does: a piece of the list at a time.
int64_t list_runs(const Subset& subset) {
  std::array<int64_t, kListedRuns> begins;
  for (int64_t run = 0; run < subset.runs; run += kListedRuns) {
    const int64_t listed = std::min(kListedRuns, subset.runs - run);
    deal_runs(subset.dealing, subset.first_group + run, listed, begins.data());
  }
  return subset.count();
}

void measure_subset(int64_t parameters, int64_t granularity) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Cut cut = cut_of(parameters, granularity);
  std::vector<double> times;
  for (int64_t round = 0; round <= kRounds; ++round) {
    int64_t count = 0;
    const double seconds = seconds_of([&] { count = list_runs(cut.subset(round)); });
    if (round > 0) times.push_back(seconds * 1e9 / static_cast<double>(count));
  }
  at::set_num_threads(threads);
  const std::string name = "runs of " + std::to_string(granularity) + ", subset";
  std::printf("%-28s %6.3f ns a coordinate\n", name.c_str(), median(times));
}

// Bytes read and written per coordinate.
double bytes_of(WireFormat format) {
  const double gathered = 4 + 4;
  const double merged = 4 * 6 + 4 * 5;  // reads mean, sent, weights, 3 buffers; writes 4 + the copy
  if (format == WireFormat::kF32) return gathered + merged;  // encoding does nothing
  const int64_t many = 1 << 20;
  const double wire =
      static_cast<double>(encoded_bytes(format, many, at::kFloat)) / static_cast<double>(many);
  return gathered + 2 * (4 + wire) + merged;
}

void exchange(WireFormat format, const Subset& subset, int64_t round, State& state) {
  const at::Tensor sent = gather(subset, state.weights);
  const at::Tensor encoded = encode(format, sent, {.seed = 1, .stream = Stream::kRounding});
  const at::Tensor mean = decode(format, encoded, subset.count(), at::kFloat);
  merge(state.options,
        {.subset = subset,
         .round = round,
         .mean = mean,
         .sent = sent,
         .weights = state.weights,
         .compute = state.compute},
        state.buffers);
}

void measure_exchange(const char* name, WireFormat format, int64_t granularity, State& state) {
  const Cut cut = cut_of(state.weights.numel(), granularity);
  std::vector<double> rates, copy_rates;
  for (int64_t round = 0; round <= kRounds; ++round) {
    const Subset subset = cut.subset(round);
    const auto bytes = static_cast<int64_t>(bytes_of(format) * static_cast<double>(subset.count()));
    const double own = seconds_of([&] { exchange(format, subset, round, state); });
    const double copy = seconds_of([&] { copy_around(bytes, state.compute, state.copy_target); });
    if (round == 0) continue;  // first touch of the pages
    rates.push_back(static_cast<double>(bytes) / own / 1e9);
    copy_rates.push_back(static_cast<double>(bytes) / copy / 1e9);
  }
  const std::string title = "runs of " + std::to_string(granularity) + ", " + name;
  std::printf("%-28s %6.1f %10.1f %6.2f %8lld\n", title.c_str(), median(rates), median(copy_rates),
              median(rates) / median(copy_rates), static_cast<long long>(peak_megabytes()));
}

// Millions of numbers a second.
double rate_of(int64_t count, const std::function<void()>& work) {
  std::vector<double> rates;
  for (int64_t round = 0; round <= kRounds; ++round) {
    const double seconds = seconds_of(work);
    if (round > 0) rates.push_back(static_cast<double>(count) / seconds / 1e6);
  }
  return median(rates);
}

void measure_packing(double threshold, const at::Tensor& values) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const int64_t count = values.numel();
  const at::Tensor blocks = encode(WireFormat::kTernary, values, {}, threshold);
  const at::Tensor packed = pack(WireFormat::kTernary, blocks, count);
  const at::Tensor target = at::zeros_like(blocks);
  const auto bytes = static_cast<int64_t>(blocks.nbytes() + packed.nbytes());
  const double pack_rate = rate_of(count, [&] { pack(WireFormat::kTernary, blocks, count); });
  const double unpack_rate = rate_of(count, [&] { unpack(WireFormat::kTernary, packed, count); });
  const double copy_rate = rate_of(count, [&] { copy_around(bytes, blocks, target); });
  std::printf("ternary, threshold %.1f, %.3f bits %6.0f %6.0f %6.0f\n", threshold,
              8.0 * static_cast<double>(packed.nbytes()) / static_cast<double>(count), pack_rate,
              unpack_rate, copy_rate);
  at::set_num_threads(threads);
}

}  // namespace

int main(int argc, char** argv) {
  cli::prefer_large_pages();  // as the program does
  const int64_t count = (argc > 1 ? std::atoll(argv[1]) : 100) * 1'000'000;
  std::printf("%lld parameters, %g of them in a round, %d threads\n", static_cast<long long>(count),
              kFraction, at::get_num_threads());
  for (const int64_t granularity : {64, 1}) measure_subset(count, granularity);
  State state;
  state.weights = at::rand({count});
  state.compute = state.weights.clone();
  state.copy_target = at::zeros_like(state.weights);
  state.buffers = make_merge_buffers(state.options, state.weights);
  std::printf("%-28s %6s %10s %6s %8s\n", "exchange", "GB/s", "copy GB/s", "ratio", "peak MB");
  for (const int64_t granularity : {64, 1}) {
    measure_exchange("f32", WireFormat::kF32, granularity, state);
    measure_exchange("bf16", WireFormat::kBf16, granularity, state);
    measure_exchange("int8", WireFormat::kInt8, granularity, state);
    measure_exchange("stochastic int8", WireFormat::kInt8Stochastic, granularity, state);
    measure_exchange("ternary", WireFormat::kTernary, granularity, state);
  }
  std::printf("%-34s %6s %6s %6s  million numbers/s, one thread\n", "packing", "pack", "unpack",
              "copy");
  const at::Tensor steps = at::randn({count});
  for (const double threshold : {0.6, 1.5}) measure_packing(threshold, steps);
  return 0;
}
