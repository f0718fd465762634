#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "../../support/temporary_folder.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_header.h"

namespace leeway {
namespace {

const Path kPath = "some.safetensors";

at::Tensor any_tensor() {
  const auto dtype = *rc::gen::element(at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong,
                                       at::kInt, at::kByte);
  const auto dimensions = *rc::gen::inRange<size_t>(0, 4);
  const auto shape = *rc::gen::container<std::vector<int64_t>>(dimensions, rc::gen::inRange(0, 6));
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(dtype));
  // Random bits, so that there are NaNs, infinities and denormals.
  const auto bits =
      *rc::gen::container<std::vector<uint8_t>>(tensor.nbytes(), rc::gen::arbitrary<uint8_t>());
  if (!bits.empty()) std::memcpy(tensor.mutable_data_ptr(), bits.data(), bits.size());
  return tensor;
}

// Names that JSON has to escape.
std::string any_name() {
  return *rc::gen::container<std::string>(
      rc::gen::element('a', 'b', '.', '"', '\\', '\n', '/', '\0', ' ', '\x7f'));
}

TensorFile any_file() {
  TensorFile file;
  const auto count = *rc::gen::inRange(0, 6);
  for (int i = 0; i < count; ++i) {
    file.tensors.push_back({any_name() + std::to_string(i), any_tensor()});
  }
  if (*rc::gen::arbitrary<bool>()) file.metadata[any_name()] = any_name();
  return file;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

std::span<const std::byte> bytes_of(const std::string& text) { return as_bytes(text); }

// The bytes of an intact file.
std::string any_sound_bytes() {
  const TemporaryFolder folder;
  RC_ASSERT(write_safetensors(folder / "a", any_file()).ok());
  return *read_text(folder / "a");
}

RC_GTEST_PROP(SafetensorsProperty, RoundTripKeepsEveryBit, ()) {
  const TemporaryFolder folder;
  const TensorFile written = any_file();
  RC_ASSERT(write_safetensors(folder / "a", written).ok());
  const auto read = read_safetensors(folder / "a");
  RC_ASSERT(read.ok());
  RC_ASSERT(read->metadata == written.metadata);
  RC_ASSERT(read->tensors.size() == written.tensors.size());
  for (size_t i = 0; i < written.tensors.size(); ++i) {
    RC_ASSERT(read->tensors[i].name == written.tensors[i].name);
    RC_ASSERT(same_bits(read->tensors[i].tensor, written.tensors[i].tensor));
  }
}

RC_GTEST_PROP(SafetensorsProperty, ElementsAreAlignedInTheFile, ()) {
  const std::string bytes = any_sound_bytes();
  const auto header = parse_header(kPath, bytes_of(bytes));
  RC_ASSERT(header.ok());
  for (const auto& entry : header->entries) {
    RC_ASSERT((header->data_offset + entry.begin) % c10::elementSize(entry.dtype) == 0u);
  }
}

RC_GTEST_PROP(SafetensorsProperty, EveryTruncationIsNoticed, ()) {
  const std::string bytes = any_sound_bytes();
  const auto size = *rc::gen::inRange<size_t>(0, bytes.size());
  RC_ASSERT(!parse_header(kPath, bytes_of(bytes.substr(0, size))).ok());
}

// Whatever the bytes: a header that the parser accepts describes tensors inside the file.
void check_garbage(const std::string& bytes) {
  const auto header = parse_header(kPath, bytes_of(bytes));
  if (!header.ok()) {
    RC_ASSERT(header.error().message.starts_with(kPath.string()));
    return;
  }
  for (const auto& entry : header->entries) {
    RC_ASSERT(entry.begin <= entry.end);
    RC_ASSERT(header->data_offset + entry.end <= bytes.size());
  }
}

RC_GTEST_PROP(SafetensorsProperty, GarbageNeverCrashes, ()) {
  const auto text = *rc::gen::arbitrary<std::string>();
  const uint64_t length =
      *rc::gen::oneOf(rc::gen::just<uint64_t>(text.size()), rc::gen::arbitrary<uint64_t>());
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  check_garbage(bytes + text);
}

RC_GTEST_PROP(SafetensorsProperty, ChangedBytesNeverCrash, ()) {
  std::string bytes = any_sound_bytes();
  const auto changes = *rc::gen::inRange(1, 5);
  for (int i = 0; i < changes; ++i) {
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] =
        *rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::element('"', '{', '[', '9', ',', '-'));
  }
  check_garbage(bytes);
}

RC_GTEST_PROP(CheckpointProperty, AnyChangedByteIsFound, ()) {
  const TemporaryFolder folder;
  TensorFile tensors = any_file();
  tensors.tensors.push_back({"at least one byte", at::zeros({1})});
  const auto path =
      write_checkpoint(folder.path(), 7, {{"a.txt", any_name() + "x"}, {"b", tensors}}, 1);
  RC_ASSERT(path.ok());
  RC_ASSERT(verify_checkpoint(*path).ok());
  const Path victim = *path / *rc::gen::element<std::string>("a.txt", "b");
  std::string bytes = *read_text(victim);
  const auto position = *rc::gen::inRange<size_t>(0, bytes.size());
  bytes[position] = static_cast<char>(bytes[position] ^ (1 << *rc::gen::inRange(0, 8)));
  RC_ASSERT(write_atomically(victim, bytes).ok());
  RC_ASSERT(!verify_checkpoint(*path).ok());
}

}  // namespace
}  // namespace leeway
