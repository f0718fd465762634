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

int64_t padded_vocabulary(const ModelShape& shape, const at::Device& device) {
  constexpr int64_t kRows = 128;
  return device.is_cpu() ? shape.vocabulary : (shape.vocabulary + kRows - 1) / kRows * kRows;
}

at::Tensor make_padded(const ModelShape& shape, const StageSlice& slice,
                       const at::TensorOptions& options) {
  const int64_t count = parameter_count(slice_layout(shape, slice));
  const int64_t rows = padded_vocabulary(shape, options.device()) - shape.vocabulary;
  return at::zeros({count + (slice.heads ? rows * shape.width : 0)}, options).narrow(0, 0, count);
}

StageViews view_padded(const at::Tensor& flat, const ModelShape& shape, const StageSlice& slice) {
  StageViews views = view_stage(flat, shape, slice);
  if (!slice.heads) return views;
  const int64_t rows = padded_vocabulary(shape, flat.device());
  at::Tensor& head = views.head.weight;
  head = head.as_strided({rows, shape.width}, {shape.width, 1}, head.storage_offset());
  return views;
}

}  // namespace leeway
