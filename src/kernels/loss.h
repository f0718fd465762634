// Cross-entropy in fp32 (fp64 for fp64 models), row by row: what is made of a row does not depend
// on how many come at a time.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace leeway {

// How many rows of logits should be there at once, of `rows`: enough for a product to be fast. The
// last part may have fewer.
int64_t loss_rows_at_once(int64_t rows, int64_t columns, int64_t number_bytes,
                          const at::Device& device);

// The loss of each row. `vocabulary`: columns of the logits that count; 0: all. Others are padding.
at::Tensor row_losses(const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary = 0);

struct RowGradients {
  at::Tensor losses;
  at::Tensor dlogits;
};
struct RowGradientOptions {
  double share = 1;  // the gradient is that of share * loss, 0 for padding
  int64_t vocabulary = 0;
};
// Consumes the logits: on a GPU the gradient takes their place.
RowGradients row_gradients(at::Tensor logits, const at::Tensor& targets,
                           const RowGradientOptions& options);

}  // namespace leeway
