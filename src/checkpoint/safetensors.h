// Tensors in a file that the Python package `safetensors`, and so Hugging Face, opens.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  // F64, F32, BF16, F16, I64, I32 or U8, on any device
};

struct TensorFile {
  std::vector<NamedTensor> tensors;             // unique names; the order is kept
  std::map<std::string, std::string> metadata;  // Hugging Face asks for {"format": "pt"}
};

// All or nothing. Tensors are written directly from memory; only those on a GPU or not contiguous
// are copied first, one at a time.
Status write_safetensors(const Path& path, const TensorFile& file);

// Reads into CPU memory: the file may be replaced or removed afterwards.
Result<TensorFile> read_safetensors(const Path& path);

}  // namespace leeway
