#include "checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <system_error>

#include "base/atomic_folder.h"
#include "base/names.h"

namespace leeway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "update-";

std::optional<int64_t> parse_digits(std::string_view digits) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  const bool sound = error == std::errc() && end == digits.end() && number >= 0;
  return sound ? std::optional(number) : std::nullopt;
}

std::vector<Path> entries_of(const Path& folder) {
  std::vector<Path> entries;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    entries.push_back(it->path());
  }
  return entries;
}

Status write_files(const Path& folder, Manifest manifest,
                   const std::vector<CheckpointFile>& files) {
  std::set<std::string> names = {kManifestName};
  for (const auto& [name, content, hash] : files) {
    LEEWAY_CHECK(names.insert(name).second, "two files of a checkpoint have the name " + name);
    const Path path = folder / name;
    if (const auto* text = std::get_if<std::string>(&content)) {
      LEEWAY_TRY(write_atomically(path, *text));
    } else if (const auto* tensors = std::get_if<TensorFile>(&content)) {
      LEEWAY_TRY(write_safetensors(path, *tensors));
    } else {
      LEEWAY_TRY(std::get<CheckpointFile::Maker>(content)(path));
    }
    LEEWAY_ASSIGN(auto entry, describe_file(folder, name));
    if (hash && *hash != entry.hash) {
      return Error{
          fmt::format("{} has changed since its worker wrote it (its hash differs); check "
                      "the disk",
                      name)};
    }
    manifest.files.push_back(std::move(entry));
  }
  return write_manifest(folder, manifest);
}

// One that cannot be removed does no harm; the next checkpoint tries again.
void prune(const Path& checkpoints, int64_t written, int64_t keep) {
  auto all = list_checkpoints(checkpoints);
  std::reverse(all.begin(), all.end());  // newest first
  int64_t kept = 0;
  for (const Path& checkpoint : all) {
    const bool superseded = *checkpoint_update(checkpoint) > written;
    if (!superseded && kept < keep) {
      ++kept;
    } else {
      static_cast<void>(remove_folder(checkpoint));
    }
  }
}

bool is_complete(const Path& checkpoint) {
  const auto manifest = read_manifest(checkpoint);
  if (!manifest.ok()) return false;
  return std::all_of(manifest->files.begin(), manifest->files.end(), [&](const auto& entry) {
    std::error_code code;
    return fs::file_size(checkpoint / entry.name, code) == entry.bytes && !code;
  });
}

// What to do about a checkpoint that cannot be used.
std::string way_out(const Path& checkpoint) {
  const Path folder = without_slash(checkpoint);
  const auto update = checkpoint_update(folder);
  const auto others = list_checkpoints(folder.parent_path());
  for (auto it = others.rbegin(); update && it != others.rend(); ++it) {
    if (*checkpoint_update(*it) < *update) {
      return "use the earlier checkpoint " + it->string();
    }
  }
  return "there is no earlier checkpoint next to it, so train again or use a copy";
}

}  // namespace

std::optional<int64_t> checkpoint_update(const Path& checkpoint) {
  const std::string name = without_slash(checkpoint).filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return parse_digits(std::string_view(name).substr(kPrefix.size()));
}

Result<Path> write_checkpoint(const Path& checkpoints, int64_t update,
                              const std::vector<CheckpointFile>& files, int64_t keep,
                              const ManifestMesh& mesh) {
  LEEWAY_CHECK(update >= 0, "updates are counted from 0");
  LEEWAY_CHECK(keep >= 1, "the checkpoint just written always stays");
  const Path target = checkpoints / fmt::format("{}{:08}", kPrefix, update);
  LEEWAY_ASSIGN(AtomicFolder folder, AtomicFolder::create(target));
  LEEWAY_TRY(write_files(folder.path(), {.update = update, .files = {}, .mesh = mesh}, files));
  LEEWAY_TRY(folder.commit());
  prune(checkpoints, update, keep);
  return target;
}

std::vector<Path> named_checkpoints(const Path& checkpoints) {
  std::vector<Path> found;
  for (Path& path : entries_of(checkpoints)) {
    if (checkpoint_update(path)) found.push_back(std::move(path));
  }
  std::sort(found.begin(), found.end(), [](const Path& a, const Path& b) {
    return *checkpoint_update(a) < *checkpoint_update(b);
  });
  return found;
}

std::vector<Path> list_checkpoints(const Path& checkpoints) {
  std::vector<Path> found = named_checkpoints(checkpoints);
  std::erase_if(found, [](const Path& path) { return !is_complete(path); });
  return found;
}

Result<Path> latest_checkpoint(const Path& checkpoints) {
  auto all = list_checkpoints(checkpoints);
  if (all.empty()) {
    return Error{checkpoints.string() +
                 " has no complete checkpoint; train first, or name another run"};
  }
  return std::move(all.back());
}

Status verify_checkpoint(const Path& checkpoint) {
  const auto manifest = read_manifest(checkpoint);
  if (!manifest.ok()) {
    return Error{fmt::format("{} is not a complete checkpoint ({}); {}", checkpoint.string(),
                             manifest.error().message, way_out(checkpoint))};
  }
  for (const ManifestEntry& expected : manifest->files) {
    const Path path = checkpoint / expected.name;
    const auto found = describe_file(checkpoint, expected.name);
    if (!found.ok()) {
      return Error{fmt::format("{}; {}", found.error().message, way_out(checkpoint))};
    }
    if (found->bytes != expected.bytes) {
      return Error{fmt::format("{} is damaged (it has {} bytes, not {}); {}", path.string(),
                               found->bytes, expected.bytes, way_out(checkpoint))};
    }
    if (found->hash != expected.hash) {
      return Error{
          fmt::format("{} is damaged (its hash differs); {}", path.string(), way_out(checkpoint))};
    }
  }
  return {};
}

}  // namespace leeway
