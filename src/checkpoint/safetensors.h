// Tensors in a file that the Python package `safetensors`, and so Hugging Face, opens.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "checkpoint/safetensors_header.h"

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

// A file whose tensors are read where they are, without a copy in memory.
class MappedTensors {
 public:
  static Result<MappedTensors> open(const Path& path);
  // Only to read, and only while this lives; undefined: there is none of this name.
  at::Tensor find(const std::string& name) const;
  const auto& metadata() const { return header_.metadata; }

 private:
  MappedTensors(MappedFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}
  MappedFile file_;
  SafetensorsHeader header_;
};

// A file whose tensors come one after another, in the order of the header's entries.
class TensorStream {
 public:
  // `entries`: names, types and shapes; where the tensors are is filled in.
  static Result<TensorStream> create(const Path& path, SafetensorsHeader entries);
  Status write(const at::Tensor& tensor);
  Status commit();  // after the last tensor

 private:
  TensorStream(AtomicFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}
  AtomicFile file_;
  SafetensorsHeader header_;
  size_t written_ = 0;
};

}  // namespace leeway
