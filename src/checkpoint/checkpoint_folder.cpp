#include "checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>
#include <string_view>
#include <system_error>

#include "checkpoint/manifest.h"

namespace leeway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "update-";
constexpr std::string_view kTemporary = ".tmp-";

std::optional<int64_t> parse_digits(std::string_view digits) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  const bool sound = error == std::errc() && end == digits.end() && number >= 0;
  return sound ? std::optional(number) : std::nullopt;
}

Path without_slash(const Path& path) { return path.has_filename() ? path : path.parent_path(); }

// A hidden name that ends with the process it belongs to.
Path temporary_beside(const Path& target) {
  return target.parent_path() /
         fmt::format(".{}{}{}", target.filename().string(), kTemporary, ::getpid());
}

std::vector<Path> entries_of(const Path& folder) {
  std::vector<Path> entries;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    entries.push_back(it->path());
  }
  return entries;
}

Status remove_tree(const Path& path) {
  std::error_code code;
  fs::remove_all(path, code);
  if (code) return file_error("remove", path, code.value());
  return {};
}

// Renames first: a process that dies halfway leaves a temporary, never half a checkpoint.
Status remove_checkpoint(const Path& checkpoint) {
  const Path doomed = temporary_beside(checkpoint);
  if (::rename(checkpoint.c_str(), doomed.c_str()) != 0) {
    return file_error("remove", checkpoint, errno);
  }
  return remove_tree(doomed);
}

// Those of this very process too: it writes one at a time, so they are from an earlier process
// that had the same number (the first ones in a container often do).
Status remove_leftovers(const Path& checkpoints) {
  for (const Path& path : entries_of(checkpoints)) {
    const std::string name = path.filename().string();
    const size_t mark = name.rfind(kTemporary);
    if (!name.starts_with('.') || mark == std::string::npos) continue;
    const auto owner = parse_digits(std::string_view(name).substr(mark + kTemporary.size()));
    if (!owner) continue;
    const auto process = static_cast<pid_t>(*owner);
    const bool alive = process != ::getpid() && (::kill(process, 0) == 0 || errno != ESRCH);
    if (!alive) LEEWAY_TRY(remove_tree(path));
  }
  return {};
}

Status write_files(const Path& folder, int64_t update, const std::vector<CheckpointFile>& files) {
  LEEWAY_TRY(make_folder(folder));
  Manifest manifest = {.update = update, .files = {}};
  std::set<std::string> names = {kManifestName};
  for (const auto& [name, content] : files) {
    LEEWAY_CHECK(names.insert(name).second, "two files of a checkpoint have the name " + name);
    const Path path = folder / name;
    if (const auto* text = std::get_if<std::string>(&content)) {
      LEEWAY_TRY(write_atomically(path, *text));
    } else {
      LEEWAY_TRY(write_safetensors(path, std::get<TensorFile>(content)));
    }
    LEEWAY_ASSIGN(auto entry, describe_file(folder, name));
    manifest.files.push_back(std::move(entry));
  }
  return write_manifest(folder, manifest);
}

// After this `target` is the new folder. An old one of the same name is swapped out in one step
// where the file system can do that, so that there is no moment without either.
Status put_in_place(const Path& temporary, const Path& target) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return remove_tree(temporary);
  }
  if (errno != ENOENT && errno != EINVAL && errno != ENOSYS) {
    return file_error("write", target, errno);
  }
  LEEWAY_TRY(remove_tree(target));
  if (::rename(temporary.c_str(), target.c_str()) != 0) return file_error("write", target, errno);
  return {};
}

Status write_whole(const Path& target, int64_t update, const std::vector<CheckpointFile>& files) {
  const Path temporary = temporary_beside(target);
  Status status = write_files(temporary, update, files);
  if (status.ok()) status = put_in_place(temporary, target);
  if (!status.ok()) {
    // The first failure is the one to tell; what cannot be removed now is removed next time.
    static_cast<void>(remove_tree(temporary));
    return status;
  }
  return sync_folder(target.parent_path());
}

Status prune(const Path& checkpoints, int64_t written, int64_t keep) {
  auto all = list_checkpoints(checkpoints);
  std::reverse(all.begin(), all.end());  // newest first
  int64_t kept = 0;
  for (const Path& checkpoint : all) {
    const bool superseded = *checkpoint_update(checkpoint) > written;
    if (!superseded && kept < keep) {
      ++kept;
    } else {
      LEEWAY_TRY(remove_checkpoint(checkpoint));
    }
  }
  return {};
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
  return "there is no earlier checkpoint beside it, so train again or use a copy";
}

}  // namespace

std::optional<int64_t> checkpoint_update(const Path& checkpoint) {
  const std::string name = without_slash(checkpoint).filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return parse_digits(std::string_view(name).substr(kPrefix.size()));
}

Result<Path> write_checkpoint(const Path& checkpoints, int64_t update,
                              const std::vector<CheckpointFile>& files, int64_t keep) {
  LEEWAY_CHECK(update >= 0, "updates are counted from 0");
  LEEWAY_CHECK(keep >= 1, "the checkpoint just written always stays");
  LEEWAY_TRY(make_folder(checkpoints));
  LEEWAY_TRY(remove_leftovers(checkpoints));
  const Path target = checkpoints / fmt::format("{}{:08}", kPrefix, update);
  LEEWAY_TRY(write_whole(target, update, files));
  LEEWAY_TRY(prune(checkpoints, update, keep));
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
                 " holds no complete checkpoint; train first, or name another run"};
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
