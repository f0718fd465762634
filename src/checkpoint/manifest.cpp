#include "checkpoint/manifest.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/hash.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFormat = 1;

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
}

std::optional<uint64_t> parse_hash(const std::string& hex) {
  uint64_t hash = 0;
  const char* last = hex.data() + hex.size();
  const auto [end, error] = std::from_chars(hex.data(), last, hash, 16);
  return error == std::errc() && end == last ? std::optional(hash) : std::nullopt;
}

bool is_entry(const Json& json) {
  return json.is_object() && json.contains("name") && json["name"].is_string() &&
         is_plain_name(json["name"].get<std::string>()) && json.contains("bytes") &&
         json["bytes"].is_number_unsigned() && json.contains("xxh3") && json["xxh3"].is_string() &&
         json["xxh3"].get<std::string>().size() == 16 &&
         parse_hash(json["xxh3"].get<std::string>()).has_value();
}

bool is_manifest(const Json& json) {
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat) return false;
  if (!json.contains("update") || !json["update"].is_number_integer()) return false;
  if (!json.contains("files") || !json["files"].is_array()) return false;
  for (const Json& entry : json["files"]) {
    if (!is_entry(entry)) return false;
  }
  return true;
}

}  // namespace

Result<ManifestEntry> describe_file(const Path& folder, const std::string& name) {
  LEEWAY_ASSIGN(const MappedFile file, MappedFile::open(folder / name));
  return ManifestEntry{name, file.bytes().size(), hash_bytes(file.bytes())};
}

Status write_manifest(const Path& folder, const Manifest& manifest) {
  Json json = {{"format", kFormat}, {"update", manifest.update}, {"files", Json::array()}};
  for (const auto& [name, bytes, hash] : manifest.files) {
    LEEWAY_CHECK(is_plain_name(name), "a checkpoint has no folders in it");
    json["files"].push_back({{"name", name}, {"bytes", bytes}, {"xxh3", hash_hex(hash)}});
  }
  return write_atomically(folder / kManifestName, json.dump(2) + "\n");
}

Result<Manifest> read_manifest(const Path& folder) {
  LEEWAY_ASSIGN(const std::string text, read_text(folder / kManifestName));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!is_manifest(json)) {
    return Error{(folder / kManifestName).string() +
                 " is not a valid list of a checkpoint's files; use an earlier checkpoint"};
  }
  Manifest manifest;
  manifest.update = json["update"].get<int64_t>();
  for (const Json& entry : json["files"]) {
    manifest.files.push_back({entry["name"].get<std::string>(), entry["bytes"].get<uint64_t>(),
                              *parse_hash(entry["xxh3"].get<std::string>())});
  }
  return manifest;
}

}  // namespace leeway
