// The files of a checkpoint.
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/saved_run.h"
#include "target.h"

namespace leeway::fuzz {
namespace {

namespace fs = std::filesystem;

Path newest(const Place& place) {
  return must(latest_checkpoint(place.sample / "run/checkpoints"));
}

// A copy of the sample's checkpoint, for a target to damage.
Path copied(const Place& place) {
  const Path copy = place.scratch / "checkpoints/update-00000004";
  if (!fs::exists(copy)) fs::create_directories(copy);
  for (const auto& entry : fs::directory_iterator(newest(place))) {
    must_write(copy / entry.path().filename(), must_read(entry.path()));
  }
  return copy;
}

// With a manifest that matches, so that the content itself is read.
void load_with(const Place& place, const char* name, std::string_view bytes) {
  const Path checkpoint = copied(place);
  must_write(checkpoint / name, bytes);
  Manifest manifest = must(read_manifest(checkpoint));
  for (ManifestEntry& entry : manifest.files) entry = must(describe_file(checkpoint, entry.name));
  must(write_manifest(checkpoint, manifest));
  sound(load_run(checkpoint, /*with_optimizer=*/true));
}

std::vector<std::string> manifests(const Place& place) {
  return {must_read(newest(place) / kManifestName)};
}

void use_manifest(const Place& place, std::string_view bytes) {
  const Path checkpoint = copied(place);
  must_write(checkpoint / kManifestName, bytes);
  sound(read_manifest(checkpoint));
  sound(verify_checkpoint(checkpoint));
  list_checkpoints(checkpoint.parent_path());
}

std::vector<std::string> states(const Place& place) {
  return {must_read(newest(place) / "state.json")};
}
void use_state(const Place& place, std::string_view bytes) {
  load_with(place, "state.json", bytes);
}

std::vector<std::string> model_configs(const Place& place) {
  return {must_read(newest(place) / "config.json")};
}
void use_model_config(const Place& place, std::string_view bytes) {
  load_with(place, "config.json", bytes);
}

// A file of every type that can be stored, small enough for the header to be most of it.
std::vector<std::string> tensor_files(const Place& place) {
  TensorFile file{.tensors = {}, .metadata = {{"format", "pt"}}};
  for (const at::ScalarType type :
       {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte}) {
    file.tensors.push_back({c10::toString(type), at::ones({2, 3}, type)});
  }
  const Path path = place.scratch / "seed.safetensors";
  must(write_safetensors(path, file));
  return {must_read(path), must_read(newest(place) / "model.safetensors")};
}

void use_tensors(const Place& place, std::string_view bytes) {
  must_write(place.scratch / "x.safetensors", bytes);
  sound(read_safetensors(place.scratch / "x.safetensors"));
}

std::vector<std::string> models(const Place& place) {
  return {must_read(newest(place) / "model.safetensors")};
}
void use_model(const Place& place, std::string_view bytes) {
  load_with(place, "model.safetensors", bytes);
}

constexpr const char* kShard = "replica-0.stage-0.safetensors";
std::vector<std::string> shards(const Place& place) { return {must_read(newest(place) / kShard)}; }
void use_shard(const Place& place, std::string_view bytes) { load_with(place, kShard, bytes); }

}  // namespace

std::vector<Target> checkpoint_targets() {
  return {{"manifest", manifests, use_manifest},
          {"state", states, use_state},
          {"model_config", model_configs, use_model_config},
          {"safetensors", tensor_files, use_tensors},
          {"model", models, use_model},
          {"shard", shards, use_shard}};
}

}  // namespace leeway::fuzz
