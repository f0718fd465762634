#include "averaging/gather.h"

#include <cstdint>

#include "averaging/blocks.h"
#include "base/check.h"

namespace leeway {
namespace {

template <class Element>
void gather_cpu(const Subset& subset, const at::Tensor& flat, const at::Tensor& values) {
  const auto* const from = static_cast<const Element*>(flat.const_data_ptr());
  auto* const to = static_cast<Element*>(values.mutable_data_ptr());
  for_blocks(subset, [&](const RunRange& range) { gather_runs(range, from, to + range.first); });
}

template <class Element>
void scatter_cpu(const Subset& subset, const at::Tensor& values, const at::Tensor& flat) {
  const auto* const from = static_cast<const Element*>(values.const_data_ptr());
  auto* const to = static_cast<Element*>(flat.mutable_data_ptr());
  for_blocks(subset, [&](const RunRange& range) { scatter_runs(range, from + range.first, to); });
}

void check_flat(const Subset& subset, const at::Tensor& flat) {
  LEEWAY_CHECK(flat.is_contiguous(), "the buffer is contiguous");
  LEEWAY_CHECK(flat.numel() == subset.parameters, "the buffer is as long as the stage");
}

}  // namespace

at::Tensor gather(const Subset& subset, const at::Tensor& flat) {
  check_flat(subset, flat);
  if (!flat.device().is_cpu()) return SubsetView(subset, flat.device()).gather(flat);
  const at::Tensor values = at::empty({subset.count()}, flat.options());
  switch (flat.scalar_type()) {  // only the width matters: nothing is computed
    case at::kFloat:
      gather_cpu<float>(subset, flat, values);
      break;
    case at::kDouble:
      gather_cpu<double>(subset, flat, values);
      break;
    case at::kBFloat16:
      gather_cpu<uint16_t>(subset, flat, values);
      break;
    default:
      LEEWAY_UNREACHABLE("a flat buffer is fp32, fp64 or bf16");
  }
  return values;
}

void scatter(const Subset& subset, const at::Tensor& values, const at::Tensor& flat) {
  check_flat(subset, flat);
  LEEWAY_CHECK(values.numel() == subset.count(), "one value for each coordinate");
  if (!flat.device().is_cpu()) {
    SubsetView(subset, flat.device()).scatter(values, flat);
    return;
  }
  const at::Tensor rounded = values.to(flat.scalar_type()).contiguous();
  switch (flat.scalar_type()) {
    case at::kFloat:
      return scatter_cpu<float>(subset, rounded, flat);
    case at::kDouble:
      return scatter_cpu<double>(subset, rounded, flat);
    case at::kBFloat16:
      return scatter_cpu<uint16_t>(subset, rounded, flat);
    default:
      LEEWAY_UNREACHABLE("a flat buffer is fp32, fp64 or bf16");
  }
}

SubsetView::SubsetView(const Subset& subset, const at::Device& device) : count_(subset.count()) {
  if (count_ == 0) return;
  const RunRange range = whole_range(subset);
  if (range.is_stretch()) {
    offset_ = range.offset();
    return;
  }
  const auto runs = static_cast<int64_t>(subset.begins.size());
  const at::Tensor begins = at::empty({runs, 1}, at::kLong);
  std::copy_n(subset.begins.data(), runs, begins.mutable_data_ptr<int64_t>());
  const at::TensorOptions options = at::TensorOptions().dtype(at::kLong).device(device);
  // Copies the runs to the device, not the coordinates. Only the last run can be short, so any
  // excess is at the end.
  coordinates_ =
      (begins.to(device) + at::arange(subset.granularity, options)).flatten().narrow(0, 0, count_);
}

at::Tensor SubsetView::gather(const at::Tensor& flat) const {
  if (!coordinates_.defined()) return flat.narrow(0, offset_, count_).clone();
  return flat.index_select(0, coordinates_);
}

void SubsetView::scatter(const at::Tensor& values, const at::Tensor& flat) const {
  if (!coordinates_.defined()) {
    flat.narrow(0, offset_, count_).copy_(values);
    return;
  }
  at::Tensor target = flat;
  target.index_copy_(0, coordinates_, values.to(flat.device(), flat.scalar_type()));
}

}  // namespace leeway
