#include "kernels/heads.h"

#include "base/check.h"
#include "kernels/column_form.h"
#include "kernels/layers.h"
#if LEEWAY_CUDA
#include "kernels/heads_cuda.h"
#endif

namespace leeway {
namespace {

int64_t rotated_heads(const HeadColumns& columns) { return columns.heads + columns.kv_heads; }

// On the CPU, or with ATen.
void rotate_rows(const HeadColumns& columns, const RotaryTables& tables, const at::Tensor& qkv,
                 double direction) {
  const int64_t heads = rotated_heads(columns);
  const int64_t time = columns.time;
  if (kernels::takes(qkv)) {
    kernels::rotate(
        qkv, tables.cosine, tables.sine,
        {.time = time, .heads = heads, .head_size = columns.head_size, .direction = direction});
    return;
  }
  const int64_t half = columns.head_size / 2;
  const at::Tensor x =
      qkv.view({qkv.size(0) / time, time, heads + columns.kv_heads, 2, half}).narrow(2, 0, heads);
  const at::Tensor cosine = tables.cosine.narrow(0, 0, time).view({1, time, 1, half});
  const at::Tensor sine = tables.sine.narrow(0, 0, time).view({1, time, 1, half}) * direction;
  at::Tensor low = x.select(3, 0);
  at::Tensor high = x.select(3, 1);
  const at::Tensor new_low = low * cosine - high * sine;
  high.copy_(high * cosine + low * sine);
  low.copy_(new_low);
}

#if LEEWAY_CUDA
bool has_tables_form(const RotaryTables& tables) {
  return has_column_form(tables.cosine) && has_column_form(tables.sine);
}

// Half a head is whole vectors, and so is every stride.
bool has_heads_form(const HeadColumns& columns, const at::Tensor& heads) {
  const auto whole = [](int64_t count) { return count % cuda::kColumns == 0; };
  return columns.head_size % (2 * cuda::kColumns) == 0 && is_on_gpu(heads) && heads.numel() > 0 &&
         heads.size(0) * columns.time <= INT32_MAX && heads.scalar_type() == at::kBFloat16 &&
         heads.stride(3) == 1 && whole(heads.stride(0)) && whole(heads.stride(1)) &&
         whole(heads.stride(2)) && reinterpret_cast<uintptr_t>(heads.const_data_ptr()) % 16 == 0;
}

cuda::HeadSource source_of(const CudaScope& scope, const at::Tensor& heads) {
  return {.numbers = scope.data<void>(heads),
          .batch_stride = heads.stride(0),
          .head_stride = heads.stride(1),
          .time_stride = heads.stride(2),
          .heads = static_cast<int>(heads.size(1))};
}

cuda::HeadPointers pointers_of(const CudaScope& scope, const HeadColumns& columns,
                               const at::Tensor& rows) {
  return {.rows = scope.data<void>(rows),
          .row_count = rows.size(0),
          .columns = static_cast<int>(rows.size(1)),
          .head_size = static_cast<int>(columns.head_size),
          .time = static_cast<int>(columns.time)};
}

void set_rotation(const CudaScope& scope, const HeadColumns& columns, const RotaryTables& tables,
                  float direction, cuda::HeadPointers& p) {
  p.turned_heads = static_cast<int>(rotated_heads(columns));
  p.cosine = scope.data<void>(tables.cosine);
  p.sine = scope.data<void>(tables.sine);
  p.direction = direction;
}

void rotate_on_gpu(const HeadColumns& columns, const RotaryTables& tables, const at::Tensor& qkv) {
  const CudaScope scope(qkv);
  cuda::HeadPointers p = pointers_of(scope, columns, qkv);
  p.from[0] = {.numbers = p.rows,
               .batch_stride = columns.time * qkv.size(1),
               .head_stride = columns.head_size,
               .time_stride = qkv.size(1),
               .heads = static_cast<int>(rotated_heads(columns))};
  set_rotation(scope, columns, tables, 1, p);
  cuda::move_heads(p, scope.stream());
}

at::Tensor join_on_gpu(const HeadColumns& columns, const RotaryTables* tables,
                       const HeadGradients& gradients, const BiasSums& bias) {
  const at::Tensor& q = gradients.q;
  const at::Tensor rows = at::empty(
      {q.size(0) * columns.time, (rotated_heads(columns) + columns.kv_heads) * columns.head_size},
      q.options());
  const CudaScope scope(q);
  cuda::HeadPointers p = pointers_of(scope, columns, rows);
  p.from[0] = source_of(scope, q);
  p.from[1] = source_of(scope, gradients.k);
  p.from[2] = source_of(scope, gradients.v);
  if (tables != nullptr) set_rotation(scope, columns, *tables, -1, p);
  at::Tensor parts;
  if (bias.onto.defined()) {
    parts = column_parts(rows, cuda::head_threads(cuda::heads_of(p), p.head_size), rows.size(1));
    p.parts = scope.data<float>(parts);
    bias.sums.add_parts(parts.unsqueeze(1), {bias.onto});
  }
  cuda::move_heads(p, scope.stream());
  return rows;
}
#endif

}  // namespace

void rotate_heads(const HeadColumns& columns, const RotaryTables& tables, const at::Tensor& qkv) {
#if LEEWAY_CUDA
  if (has_column_form(qkv) && has_tables_form(tables) &&
      columns.head_size % (2 * cuda::kColumns) == 0) {
    rotate_on_gpu(columns, tables, qkv);
    return;
  }
#endif
  rotate_rows(columns, tables, qkv, 1.0);
}

at::Tensor join_heads(const HeadColumns& columns, const RotaryTables* tables,
                      const HeadGradients& gradients, const BiasSums& bias) {
#if LEEWAY_CUDA
  if (has_heads_form(columns, gradients.q) && has_heads_form(columns, gradients.k) &&
      has_heads_form(columns, gradients.v) && (tables == nullptr || has_tables_form(*tables))) {
    return join_on_gpu(columns, tables, gradients, bias);
  }
#endif
  const auto rows = [&](const at::Tensor& heads) {  // [tokens, heads * head_size]
    return heads.transpose(1, 2).reshape({heads.size(0) * columns.time, -1});
  };
  at::Tensor joined = at::cat({rows(gradients.q), rows(gradients.k), rows(gradients.v)}, 1);
  if (tables != nullptr) rotate_rows(columns, *tables, joined, -1.0);
  if (bias.onto.defined()) bias.sums.add_rows(joined, bias.onto);
  return joined;
}

}  // namespace leeway
