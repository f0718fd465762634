// File access whose errors are sentences: what, where, what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace leeway {

using Path = std::filesystem::path;

// A path through a folder's handle (held_folder.h) as people know it; others as they are.
Path named_path(const Path& path);

// "cannot VERB PATH: REASON (what to do)", from errno.
Error file_error(std::string_view verb, const Path& path, int error_number);

// Any file that has an end, pipes included.
Result<std::string> read_text(const Path& path);

// All or nothing: writes next to the target, syncs, renames over it. On failure the old content
// stays and no temporary file is left.
Status write_atomically(const Path& path, std::string_view content);

// With the folders above it; each new one is synced into its parent.
Status make_folder(const Path& path);

// The same file under another name, or a synced copy where the file system has no second names.
Status link_or_copy(const Path& from, const Path& to);

// Removes a folder with everything in it, or a file; what is not there counts as removed. Not
// std::filesystem::remove_all(): LibTorch exports an older copy of it, which crashes under g++ 13.
Status remove_tree(const Path& path);

// Syncs the folder's list of entries to disk, so that a rename in it survives a power cut.
Status sync_folder(const Path& path);
// Syncs what any process has written to the file.
Status sync_file(const Path& path);

// A file written in pieces that appears under its name only at commit().
class AtomicFile {
 public:
  static Result<AtomicFile> create(const Path& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // without commit(): removes the temporary file

  Status write(std::span<const std::byte> bytes);
  Status write_at(uint64_t offset, std::span<const std::byte> bytes);  // for a header filled last
  Status commit();
  uint64_t size() const { return size_; }

 private:
  AtomicFile(Path target, Path temporary, int descriptor);
  Path target_;
  Path temporary_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// A whole regular file, read-only, mapped. Empty files map to an empty span.
class MappedFile {
 public:
  static Result<MappedFile> open(const Path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace leeway
