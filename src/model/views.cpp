#include "model/views.h"

#include "base/check.h"

namespace leeway {
namespace {

// Walks the flat buffer in the order of slice_layout().
class ViewCutter {
 public:
  ViewCutter(at::Tensor flat, bool bias) : flat_(std::move(flat)), bias_(bias) {}

  at::Tensor matrix(int64_t rows, int64_t cols) { return next(rows * cols).view({rows, cols}); }

  at::Tensor next(int64_t count) {
    at::Tensor view = flat_.narrow(0, offset_, count);
    offset_ += count;
    return view;
  }
  NormViews norm(int64_t width) {
    NormViews views;
    views.weight = next(width);
    if (bias_) views.bias = next(width);
    return views;
  }
  LinearViews linear(int64_t rows, int64_t cols) {
    LinearViews views;
    views.weight = matrix(rows, cols);
    if (bias_) views.bias = next(rows);
    return views;
  }
  int64_t offset() const { return offset_; }

 private:
  at::Tensor flat_;
  bool bias_;
  int64_t offset_ = 0;
};

}  // namespace

StageViews view_stage(const at::Tensor& flat, const ModelShape& shape, const StageSlice& slice) {
  ViewCutter cut(flat, shape.bias);
  StageViews views;
  views.flat = flat;
  if (slice.embeds) {
    views.embedding = cut.matrix(shape.vocabulary, shape.width);
    if (shape.architecture == Architecture::kGpt2) {
      views.positions = cut.matrix(shape.context, shape.width);
    }
  }
  for (int64_t layer = 0; layer < slice.layers; ++layer) {
    BlockViews block;
    block.attention_norm = cut.norm(shape.width);
    block.qkv = cut.linear(shape.qkv_rows(), shape.width);
    block.out = cut.linear(shape.width, shape.width);
    block.mlp_norm = cut.norm(shape.width);
    block.up = cut.linear(shape.up_rows(), shape.width);
    block.down = cut.linear(shape.width, shape.hidden);
    views.blocks.push_back(std::move(block));
  }
  if (slice.heads) {
    views.final_norm = cut.norm(shape.width);
    views.head.weight = cut.matrix(shape.vocabulary, shape.width);
  }
  LEEWAY_CHECK(cut.offset() == flat.numel(), "views and layout use the same order");
  return views;
}

}  // namespace leeway
