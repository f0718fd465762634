// Which windows of the validation data one evaluation reads, batch by batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "data/token_file.h"

namespace leeway {

struct EvaluationOptions {
  int64_t context = 0;
  int64_t windows = 0;  // 0: all; fewer than all are spread evenly over the file
  int64_t batch = 16;
  at::Device device = at::kCPU;
};

// How many windows of this file one evaluation reads.
uint64_t evaluation_windows(const TokenFile& tokens, const EvaluationOptions& options);

// How many forwards one evaluation takes, and the windows of one of them.
int64_t evaluation_batches(const TokenFile& tokens, const EvaluationOptions& options);
std::vector<uint64_t> evaluation_batch(const TokenFile& tokens, const EvaluationOptions& options,
                                       int64_t index);

}  // namespace leeway
