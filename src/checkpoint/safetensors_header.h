// The header of a safetensors file: eight bytes of length, then JSON that says where each tensor
// is. Separate from safetensors.h so that tests can feed it hostile bytes without any tensors.
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
  uint64_t data_offset = 0;  // where the first tensor byte is in the file
};

// The bytes before the tensors, padded with spaces so that the tensors start at a multiple of 8.
std::string format_header(const SafetensorsHeader& header);

// Trusts nothing: checks length, JSON, dtypes, shapes, and that the tensors fill the rest of the
// file without a gap or an overlap. `path` is only for error messages.
Result<SafetensorsHeader> parse_header(const Path& path, std::span<const std::byte> file);

bool is_stored_dtype(at::ScalarType dtype);  // whether a file can store it

}  // namespace leeway
