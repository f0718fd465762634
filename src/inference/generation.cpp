#include "inference/generation.h"

#include <algorithm>

#include "base/check.h"
#include "base/rng.h"

namespace leeway {

TokenId draw_token(const at::Tensor& logits, double temperature, int64_t top_k, double u) {
  const at::Tensor row = logits.to(at::kCPU, at::kDouble).view(-1);
  const int64_t kept = top_k == 0 ? row.numel() : std::min(top_k, row.numel());
  const auto [values, ids] = row.topk(temperature == 0 ? 1 : kept);  // likeliest first
  if (temperature == 0) return static_cast<TokenId>(ids.item<int64_t>());
  const at::Tensor sums = at::softmax(values / temperature, 0).cumsum(0);
  const auto* sum = sums.const_data_ptr<double>();
  // The last sum may round to less than u: then take the last token.
  const int64_t index = std::min<int64_t>(std::upper_bound(sum, sum + kept, u) - sum, kept - 1);
  return static_cast<TokenId>(ids[index].item<int64_t>());
}

std::vector<TokenId> generate(const Logits& logits, std::vector<TokenId> ids,
                              const GenerationOptions& options,
                              const std::function<void(TokenId)>& made) {
  LEEWAY_CHECK(!ids.empty() && options.context > 0, "generation needs a prompt and a context");
  const RandomKey key{options.seed, Stream::kGenerate, 0};
  std::vector<TokenId> fresh;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const auto time = std::min(static_cast<int64_t>(ids.size()), options.context);
    const std::vector<int64_t> recent(ids.end() - time, ids.end());
    const at::Tensor input = at::tensor(recent, at::kLong).view({1, time}).to(options.device);
    const TokenId next = draw_token(logits(input)[time - 1], options.temperature, options.top_k,
                                    random_uniform(key, static_cast<uint64_t>(i)));
    if (options.stop_at && next == *options.stop_at) break;
    ids.push_back(next);
    fresh.push_back(next);
    if (made) made(next);
  }
  return fresh;
}

}  // namespace leeway
