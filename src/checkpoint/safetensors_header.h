// The head of a safetensors file: eight bytes of length, then JSON that says where each tensor
// lies. Apart from safetensors.h so that hostile bytes can be tried on it without any tensor.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

struct TensorEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes, counted from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;
  std::map<std::string, std::string> metadata;
  uint64_t data_offset = 0;  // of the first tensor byte in the file
};

// The bytes before the tensors, padded with spaces so that the tensors start at a multiple of 8.
std::string format_header(const SafetensorsHeader& header);

// Believes nothing: length, JSON, dtypes, shapes, and that the tensors fill the rest of the file
// without a gap or an overlap. `path` is for the error sentences only.
Result<SafetensorsHeader> parse_header(const Path& path, std::span<const std::byte> file);

bool is_stored_dtype(at::ScalarType dtype);  // one of those that a file may hold

}  // namespace leeway
