// Text from a trained model, one token at a time.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace leeway {

// ids [batch, time] -> logits [batch * time, vocabulary]
using Logits = std::function<at::Tensor(const at::Tensor& ids)>;

struct GenerationOptions {
  int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest
  int64_t top_k = 40;        // 0: all
  uint64_t seed = 1;
  int64_t context = 0;             // the model's; older tokens are dropped
  std::optional<TokenId> stop_at;  // a document marker ends the text
  at::Device device = at::kCPU;
};

// Continues `ids` (at least one); calls `made` for every new token.
std::vector<TokenId> generate(const Logits& logits, std::vector<TokenId> ids,
                              const GenerationOptions& options,
                              const std::function<void(TokenId)>& made = {});

// One draw from a row of logits with the uniform number u in [0, 1).
TokenId draw_token(const at::Tensor& logits, double temperature, int64_t top_k, double u);

}  // namespace leeway
