// Sums over rows, which are the gradients of biases and norms.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace leeway {

// A GPU adds up parts of the rows first, and then the parts. The second step is so small that those
// of a whole layer are done together, at finish(). Elsewhere sums are made at once.
class ColumnSums {
 public:
  ColumnSums() = default;
  ~ColumnSums();
  ColumnSums(const ColumnSums&) = delete;
  ColumnSums& operator=(const ColumnSums&) = delete;

  // sums += the rows of `rows` [rows, columns], added up in the type of `sums`. Rows must stay as
  // they are until finish(), and nothing is added to the same sums twice before it.
  void add_rows(const at::Tensor& rows, const at::Tensor& sums);
  // sums[i] += the sum over the first dimension of parts[:, i]. `parts`: fp32 [count, outputs,
  // columns], of a kernel on the current stream; undefined sums are not wanted.
  void add_parts(const at::Tensor& parts, const std::vector<at::Tensor>& sums);
  void finish();

 private:
  struct Rows {
    at::Tensor rows;
    at::Tensor sums;
  };
  struct Parts {
    at::Tensor parts;
    std::vector<at::Tensor> sums;
  };
  void sum_rows();

  std::vector<Rows> rows_;  // of one size
  std::vector<Parts> parts_;
};

// Where the sums of a result's rows go; `onto` undefined: nowhere. They are there when the sums are
// finished.
struct BiasSums {
  at::Tensor onto;
  ColumnSums& sums;
};

// For one piece of work alone: what it returns, when its sums are finished.
template <class Work>
auto with_sums(const Work& work) {
  ColumnSums sums;
  auto result = work(sums);
  sums.finish();
  return result;
}
void add_column_sums(const at::Tensor& rows, const at::Tensor& sums);

}  // namespace leeway
