// The loss of a trained model on held-out text, for `leeway eval`.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>

#include "compute/batches.h"
#include "compute/evaluation_batches.h"
#include "data/token_file.h"

namespace leeway {

struct Evaluation {
  double loss = 0;     // mean over the tokens, nats
  int64_t tokens = 0;  // predicted tokens
  int64_t windows = 0;
};

// The mean over its tokens.
using BatchLoss = std::function<at::Tensor(const Batch& batch)>;
// Called after every batch with windows done and windows in total; returns whether to continue. May
// be empty.
using EvaluationProgress = std::function<bool(int64_t done, int64_t total)>;

// nullopt: `progress` said to stop.
std::optional<Evaluation> evaluate(const BatchLoss& loss, const TokenFile& tokens,
                                   const EvaluationOptions& options,
                                   const EvaluationProgress& progress = {});

// Converts nats per token to bits per byte of the original text; nullopt: the file does not say how
// long that text was.
std::optional<double> bits_per_byte(double loss, const TokenFileInfo& info);

}  // namespace leeway
