#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <span>
#include <utility>

namespace leeway {
namespace {

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// Wide elements first, so that every tensor is aligned for its type whatever its neighbours' sizes.
std::vector<size_t> order_in_file(const std::vector<NamedTensor>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tensors[a].tensor.element_size() > tensors[b].tensor.element_size();
  });
  return order;
}

SafetensorsHeader header_of(const TensorFile& file, const std::vector<size_t>& order) {
  SafetensorsHeader header;
  header.metadata = file.metadata;
  std::set<std::string> names = {"__metadata__"};
  for (const auto& [name, tensor] : file.tensors) {
    LEEWAY_CHECK(tensor.defined(), "a tensor to save is defined");
    LEEWAY_CHECK(is_stored_dtype(tensor.scalar_type()), "safetensors cannot store " + name);
    LEEWAY_CHECK(names.insert(name).second, "two tensors have the name " + name);
    header.entries.push_back(
        {.name = name, .dtype = tensor.scalar_type(), .shape = tensor.sizes().vec()});
  }
  uint64_t position = 0;
  for (const size_t index : order) {
    header.entries[index].begin = position;
    position += file.tensors[index].tensor.nbytes();
    header.entries[index].end = position;
  }
  return header;
}

}  // namespace

Status write_safetensors(const Path& path, const TensorFile& file) {
  const auto order = order_in_file(file.tensors);
  const std::string header = format_header(header_of(file, order));
  LEEWAY_ASSIGN(AtomicFile out, AtomicFile::create(path));
  LEEWAY_TRY(out.write(as_bytes(header)));
  for (const size_t index : order) {
    const at::Tensor host = file.tensors[index].tensor.detach().cpu().contiguous();
    LEEWAY_TRY(out.write(bytes_of(host)));
  }
  return out.commit();
}

Result<TensorFile> read_safetensors(const Path& path) {
  LEEWAY_ASSIGN(const MappedFile mapped, MappedFile::open(path));
  LEEWAY_ASSIGN(SafetensorsHeader header, parse_header(path, mapped.bytes()));
  TensorFile file;
  file.metadata = std::move(header.metadata);
  for (auto& entry : header.entries) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.dtype));
    const auto source =
        mapped.bytes().subspan(header.data_offset + entry.begin, entry.end - entry.begin);
    if (!source.empty()) std::memcpy(tensor.mutable_data_ptr(), source.data(), source.size());
    file.tensors.push_back({std::move(entry.name), std::move(tensor)});
  }
  return file;
}

Result<MappedTensors> MappedTensors::open(const Path& path) {
  LEEWAY_ASSIGN(MappedFile file, MappedFile::open(path));
  LEEWAY_ASSIGN(SafetensorsHeader header, parse_header(path, file.bytes()));
  return MappedTensors(std::move(file), std::move(header));
}

at::Tensor MappedTensors::find(const std::string& name) const {
  const auto entry = std::ranges::find(header_.entries, name, &TensorEntry::name);
  if (entry == header_.entries.end()) return {};
  const std::byte* data = file_.bytes().data() + header_.data_offset + entry->begin;
  const at::TensorOptions options = at::TensorOptions().dtype(entry->dtype);
  const size_t width = c10::elementSize(entry->dtype);
  if (reinterpret_cast<uintptr_t>(data) % width != 0) {  // not a file of ours
    at::Tensor copy = at::empty(entry->shape, options);
    std::memcpy(copy.mutable_data_ptr(), data, entry->end - entry->begin);
    return copy;
  }
  return at::from_blob(const_cast<std::byte*>(data), entry->shape, options);
}

Result<TensorStream> TensorStream::create(const Path& path, SafetensorsHeader entries) {
  uint64_t position = 0;
  for (TensorEntry& entry : entries.entries) {
    entry.begin = position;
    uint64_t bytes = c10::elementSize(entry.dtype);
    for (const int64_t size : entry.shape) bytes *= static_cast<uint64_t>(size);
    entry.end = position += bytes;
  }
  LEEWAY_ASSIGN(AtomicFile file, AtomicFile::create(path));
  LEEWAY_TRY(file.write(as_bytes(format_header(entries))));
  return TensorStream(std::move(file), std::move(entries));
}

Status TensorStream::write(const at::Tensor& tensor) {
  LEEWAY_CHECK(written_ < header_.entries.size(), "no more tensors than the header has");
  const TensorEntry& entry = header_.entries[written_++];
  LEEWAY_CHECK(tensor.sizes() == entry.shape && tensor.scalar_type() == entry.dtype,
               "the tensor that the header promised: " + entry.name);
  return file_.write(bytes_of(tensor.contiguous()));
}

Status TensorStream::commit() {
  LEEWAY_CHECK(written_ == header_.entries.size(), "all tensors that the header has");
  return file_.commit();
}

}  // namespace leeway
