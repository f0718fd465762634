#include "compute/evaluation_batches.h"

#include <algorithm>

#include "data/sampler.h"

namespace leeway {

uint64_t evaluation_windows(const TokenFile& tokens, const EvaluationOptions& options) {
  const uint64_t all = window_count_of(tokens.info().count, options.context);
  return options.windows == 0 ? all : std::min(all, static_cast<uint64_t>(options.windows));
}

int64_t evaluation_batches(const TokenFile& tokens, const EvaluationOptions& options) {
  const auto windows = static_cast<int64_t>(evaluation_windows(tokens, options));
  return (windows + options.batch - 1) / options.batch;
}

std::vector<uint64_t> evaluation_batch(const TokenFile& tokens, const EvaluationOptions& options,
                                       int64_t index) {
  const uint64_t all = window_count_of(tokens.info().count, options.context);
  const uint64_t count = evaluation_windows(tokens, options);
  const auto size = static_cast<uint64_t>(options.batch);
  const uint64_t first = static_cast<uint64_t>(index) * size;
  std::vector<uint64_t> windows;
  for (uint64_t i = first; i < std::min(count, first + size); ++i) {
    windows.push_back(i * all / count);
  }
  return windows;
}

}  // namespace leeway
