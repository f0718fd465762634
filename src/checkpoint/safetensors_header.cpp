#include "checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

namespace leeway {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

using Json = nlohmann::ordered_json;  // keeps the order of the tensors

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kHeaderBytesMax = 100'000'000;  // as in the reference implementation
constexpr const char* kMetadata = "__metadata__";

struct DTypeName {
  at::ScalarType dtype;
  const char* name;
};
constexpr std::array<DTypeName, 7> kDTypes = {{{at::kDouble, "F64"},
                                               {at::kFloat, "F32"},
                                               {at::kBFloat16, "BF16"},
                                               {at::kHalf, "F16"},
                                               {at::kLong, "I64"},
                                               {at::kInt, "I32"},
                                               {at::kByte, "U8"}}};

std::optional<at::ScalarType> dtype_named(std::string_view name) {
  for (const auto& entry : kDTypes) {
    if (name == entry.name) return entry.dtype;
  }
  return std::nullopt;
}

const char* name_of(at::ScalarType dtype) {
  const auto found = std::find_if(kDTypes.begin(), kDTypes.end(),
                                  [&](const DTypeName& entry) { return entry.dtype == dtype; });
  LEEWAY_CHECK(found != kDTypes.end(), "the caller checked is_stored_dtype()");
  return found->name;
}

Error broken(const Path& path, std::string_view what) {
  return Error{
      fmt::format("{} is not a valid safetensors file: {}; use another file", path.string(), what)};
}

Error cut_short(const Path& path, uint64_t promised, uint64_t present) {
  return Error{
      fmt::format("{} is cut short: header promises {} bytes, file has {}; "
                  "use an earlier checkpoint",
                  path.string(), promised, present)};
}

// nullopt: too large for any file. A zero dimension does not excuse an absurd one, because ATen
// multiplies them all for its strides.
std::optional<uint64_t> byte_count(const std::vector<int64_t>& shape, at::ScalarType dtype) {
  uint64_t product = c10::elementSize(dtype);
  bool empty = false;
  for (const int64_t size : shape) {
    empty = empty || size == 0;
    const uint64_t factor = std::max<uint64_t>(1, static_cast<uint64_t>(size));
    if (factor > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / product) {
      return std::nullopt;
    }
    product *= factor;
  }
  return empty ? 0 : product;
}

// Parses the JSON text; nullopt if it is not an object or has a duplicate key (another reader may
// pick the other value).
std::optional<Json> parse_object(std::string_view text) {
  std::set<std::string> names;
  bool repeated = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) {
      repeated = !names.insert(parsed.get<std::string>()).second || repeated;
    }
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (repeated || !json.is_object()) return std::nullopt;
  return json;
}

bool is_unsigned_array(const Json& json) {
  return json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& item) {
           return item.is_number_unsigned() &&
                  item.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
         });
}

Result<TensorEntry> parse_entry(const Path& path, const std::string& name, const Json& json) {
  const bool complete = json.is_object() && json.contains("dtype") && json["dtype"].is_string() &&
                        json.contains("shape") && is_unsigned_array(json["shape"]) &&
                        json.contains("data_offsets") && is_unsigned_array(json["data_offsets"]) &&
                        json["data_offsets"].size() == 2;
  if (!complete) {
    return broken(path, fmt::format("tensor '{}' lacks a valid dtype, shape or offsets", name));
  }
  const auto dtype_name = json["dtype"].get<std::string>();
  const auto dtype = dtype_named(dtype_name);
  if (!dtype) {
    return broken(path, fmt::format("tensor '{}' has dtype {}, but only F64, F32, BF16, F16, I64, "
                                    "I32 and U8 are supported",
                                    name, dtype_name));
  }
  TensorEntry entry = {.name = name,
                       .dtype = *dtype,
                       .shape = json["shape"].get<std::vector<int64_t>>(),
                       .begin = json["data_offsets"][0].get<uint64_t>(),
                       .end = json["data_offsets"][1].get<uint64_t>()};
  const auto bytes = byte_count(entry.shape, entry.dtype);
  if (!bytes || entry.end < entry.begin || entry.end - entry.begin != *bytes) {
    return broken(path,
                  fmt::format("the shape of tensor '{}' does not match its size in bytes", name));
  }
  return entry;
}

Status parse_metadata(const Path& path, const Json& json, SafetensorsHeader& header) {
  if (!json.is_object()) return broken(path, "its metadata is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return broken(path, fmt::format("metadata '{}' is not a string", key));
    header.metadata[key] = value.get<std::string>();
  }
  return {};
}

// The tensors must fill the file to its end without gaps, as the reference reader requires.
Status check_coverage(const Path& path, const SafetensorsHeader& header, uint64_t file_bytes) {
  std::vector<const TensorEntry*> sorted;
  for (const auto& entry : header.entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t position = 0;
  for (const TensorEntry* entry : sorted) {
    if (entry->begin != position) {
      return broken(path, fmt::format("tensor '{}' {} another one", entry->name,
                                      entry->begin < position ? "overlaps" : "leaves a gap after"));
    }
    position = entry->end;
  }
  const uint64_t present = file_bytes - header.data_offset;
  if (present < position) return cut_short(path, header.data_offset + position, file_bytes);
  if (present > position) {
    return broken(path, fmt::format("{} bytes follow its last tensor", present - position));
  }
  return {};
}

}  // namespace

bool is_stored_dtype(at::ScalarType dtype) {
  return std::any_of(kDTypes.begin(), kDTypes.end(),
                     [&](const DTypeName& entry) { return entry.dtype == dtype; });
}

std::string format_header(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  for (const auto& entry : header.entries) {
    json[entry.name] = {{"dtype", name_of(entry.dtype)},
                        {"shape", entry.shape},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  // Metadata may quote a path that is not UTF-8; JSON must be, and an exception would lose the
  // file.
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  LEEWAY_CHECK(length <= kHeaderBytesMax, "a model has fewer tensors than this");
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

Result<SafetensorsHeader> parse_header(const Path& path, std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) return cut_short(path, kLengthBytes, file.size());
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kHeaderBytesMax) return broken(path, "it does not start with a valid header length");
  if (length > file.size() - kLengthBytes) {
    return cut_short(path, kLengthBytes + length, file.size());
  }
  const auto json = parse_object(
      {reinterpret_cast<const char*>(file.data()) + kLengthBytes, static_cast<size_t>(length)});
  if (!json) return broken(path, "its header is not a JSON object with unique names");

  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length;
  for (const auto& [name, value] : json->items()) {
    if (name == kMetadata) {
      LEEWAY_TRY(parse_metadata(path, value, header));
      continue;
    }
    LEEWAY_ASSIGN(auto entry, parse_entry(path, name, value));
    header.entries.push_back(std::move(entry));
  }
  LEEWAY_TRY(check_coverage(path, header, file.size()));
  return header;
}

}  // namespace leeway
