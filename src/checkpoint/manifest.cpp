#include "checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/hash.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kWithoutShards = 1;
constexpr int64_t kWithShards = 2;
constexpr int64_t kStagesMax = 1 << 16;

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
  if (!json.is_object() || !json.contains("format")) return false;
  if (json["format"] != kWithoutShards && json["format"] != kWithShards) return false;
  if (!json.contains("update") || !json["update"].is_number_integer()) return false;
  if (!json.contains("files") || !json["files"].is_array()) return false;
  for (const Json& entry : json["files"]) {
    if (!is_entry(entry)) return false;
  }
  return true;
}

Json mesh_json(const ManifestMesh& mesh) {
  Json json = {{"stages", mesh.stages},
               {"replicas", mesh.replicas},
               {"table", mesh.table},
               {"members", Json::array()},
               {"shards", Json::array()}};
  for (const ReplicaId member : mesh.members) json["members"].push_back(member.value);
  for (const ManifestShard& shard : mesh.shards) {
    json["shards"].push_back({{"name", shard.name},
                              {"replica", shard.worker.replica.value},
                              {"stage", shard.worker.stage.value},
                              {"update", shard.update},
                              {"rounds", shard.rounds},
                              {"holder", shard.holder}});
    if (!shard.answers.empty()) json["shards"].back()["answers"] = shard.answers;
    if (shard.model_hash != 0) json["shards"].back()["model_hash"] = hash_hex(shard.model_hash);
  }
  return json;
}

// Replicas that are there are there with all their stages, at one update, in order.
bool is_whole(const ManifestMesh& mesh) {
  if (mesh.stages < 1 || mesh.stages > kStagesMax || mesh.shards.empty()) return false;
  if (std::ssize(mesh.shards) % mesh.stages != 0) return false;
  int64_t before = -1;
  for (size_t at = 0; at < mesh.shards.size(); ++at) {
    const ManifestShard& shard = mesh.shards[at];
    const auto stage = static_cast<int64_t>(at) % mesh.stages;
    const ManifestShard& first = mesh.shards[at - static_cast<size_t>(stage)];
    if (shard.worker.stage.value != stage || shard.worker.replica != first.worker.replica ||
        shard.update != first.update) {
      return false;
    }
    const int64_t replica = shard.worker.replica.value;
    if (stage == 0 && (replica <= before || replica >= mesh.replicas)) return false;
    before = replica;
  }
  return true;
}

// Throws what the JSON library throws for a missing or malformed member.
std::optional<ManifestMesh> parse_mesh(const Json& json) {
  ManifestMesh mesh = {.stages = json.at("stages").get<int64_t>(),
                       .replicas = json.at("replicas").get<int64_t>(),
                       .table = json.at("table").get<int64_t>()};
  if (mesh.replicas < 1 || mesh.replicas > ReplicaSet::kReplicasMax) return std::nullopt;
  for (const Json& member : json.at("members")) {
    const auto replica = member.get<int64_t>();
    if (replica < 0 || replica >= mesh.replicas) return std::nullopt;
    mesh.members.add({replica});
  }
  for (const Json& shard : json.at("shards")) {
    mesh.shards.push_back({.name = shard.at("name").get<std::string>(),
                           .worker = {.replica = {shard.at("replica").get<int64_t>()},
                                      .stage = {shard.at("stage").get<int64_t>()}},
                           .update = shard.at("update").get<int64_t>(),
                           .rounds = shard.at("rounds").get<std::vector<int64_t>>(),
                           .holder = shard.at("holder").get<std::string>()});
    ManifestShard& read = mesh.shards.back();
    read.answers = shard.value("answers", std::vector<int64_t>());
    read.model_hash = std::stoull(shard.value("model_hash", "0"), nullptr, 16);
  }
  return is_whole(mesh) ? std::optional(std::move(mesh)) : std::nullopt;
}

// Whether every shard is one of the files, whose hashes are checked.
bool lists_shards(const Manifest& manifest) {
  return std::ranges::all_of(manifest.mesh.shards, [&](const ManifestShard& shard) {
    return std::ranges::count(manifest.files, shard.name, &ManifestEntry::name) == 1;
  });
}

}  // namespace

Result<ManifestEntry> describe_file(const Path& folder, const std::string& name) {
  LEEWAY_ASSIGN(const MappedFile file, MappedFile::open(folder / name));
  return ManifestEntry{name, file.bytes().size(), hash_bytes(file.bytes())};
}

Status write_manifest(const Path& folder, const Manifest& manifest) {
  const bool sharded = !manifest.mesh.shards.empty();
  Json json = {{"format", sharded ? kWithShards : kWithoutShards}, {"update", manifest.update}};
  if (sharded) json.update(mesh_json(manifest.mesh));
  json["files"] = Json::array();
  for (const auto& [name, bytes, hash] : manifest.files) {
    LEEWAY_CHECK(is_plain_name(name), "a checkpoint has no folders in it");
    json["files"].push_back({{"name", name}, {"bytes", bytes}, {"xxh3", hash_hex(hash)}});
  }
  return write_atomically(folder / kManifestName, json.dump(2) + "\n");
}

Result<Manifest> read_manifest(const Path& folder) {
  LEEWAY_ASSIGN(const std::string text, read_text(folder / kManifestName));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto wrong =
      Error{(folder / kManifestName).string() +
            " is not a valid list of a checkpoint's files; use an earlier checkpoint"};
  if (!is_manifest(json)) return wrong;
  Manifest manifest;
  manifest.update = json["update"].get<int64_t>();
  for (const Json& entry : json["files"]) {
    manifest.files.push_back({entry["name"].get<std::string>(), entry["bytes"].get<uint64_t>(),
                              *parse_hash(entry["xxh3"].get<std::string>())});
  }
  if (json["format"] == kWithoutShards) return manifest;
  try {
    std::optional<ManifestMesh> mesh = parse_mesh(json);
    if (!mesh) return wrong;
    manifest.mesh = std::move(*mesh);
  } catch (const std::exception&) {  // a missing or malformed member
    return wrong;
  }
  return lists_shards(manifest) ? Result<Manifest>(std::move(manifest)) : wrong;
}

}  // namespace leeway
