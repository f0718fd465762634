#include "inference/evaluation.h"

#include <algorithm>
#include <numbers>
#include <vector>

#include "base/check.h"
#include "data/sampler.h"

namespace leeway {

std::optional<Evaluation> evaluate(const BatchLoss& loss, const TokenFile& tokens,
                                   const EvaluationOptions& options,
                                   const EvaluationProgress& progress) {
  const auto count = static_cast<int64_t>(evaluation_windows(tokens, options));
  LEEWAY_CHECK(count > 0, "check_windows() refuses a file without a window");
  Evaluation result;
  double sum = 0;  // fp64, in the order of the file: the same bits every time
  for (int64_t index = 0; index < evaluation_batches(tokens, options); ++index) {
    const std::vector<uint64_t> windows = evaluation_batch(tokens, options, index);
    const Batch batch = read_windows(tokens, options.context, windows, options.device);
    sum += loss(batch).item<double>() * static_cast<double>(batch.targets.numel());
    result.tokens += batch.targets.numel();
    result.windows += static_cast<int64_t>(windows.size());
    const bool last = result.windows == count;
    if (progress && !progress(result.windows, count) && !last) return std::nullopt;
  }
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

std::optional<double> bits_per_byte(double loss, const TokenFileInfo& info) {
  if (info.text_bytes == 0) return std::nullopt;
  const double tokens_per_byte =
      static_cast<double>(info.count) / static_cast<double>(info.text_bytes);
  return loss / std::numbers::ln2 * tokens_per_byte;
}

}  // namespace leeway
