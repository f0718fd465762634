#include "data/input_files.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/hash.h"
#include "data/data_folder.h"

namespace leeway {
namespace fs = std::filesystem;
namespace {

bool is_pattern(std::string_view text) { return text.find_first_of("*?[") != text.npos; }

bool is_hidden(const Path& path) { return path.filename().string().starts_with('.'); }

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

// "*.py" also matches compressed Python files.
bool included(const std::vector<std::string>& include, const Path& path) {
  if (include.empty()) return true;
  return std::any_of(include.begin(), include.end(), [&](const std::string& pattern) {
    if (matches(pattern, path.filename().string())) return true;
    const Path extension = path.extension();
    return (extension == ".gz" || extension == ".zst") && matches(pattern, path.stem().string());
  });
}

Result<std::vector<fs::directory_entry>> entries_of(const Path& folder) {
  std::error_code code;
  fs::directory_iterator walk(folder.empty() ? Path(".") : folder, code);
  std::vector<fs::directory_entry> entries;
  while (!code && walk != fs::directory_iterator()) {
    entries.push_back(*walk);
    walk.increment(code);
  }
  if (code) return file_error("read the folder", folder, code.value());
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.path().filename().native() < b.path().filename().native();
  });
  return entries;
}

// Follows links to files, but not to folders: they may lead back up.
bool is_real_folder(const fs::directory_entry& entry) {
  std::error_code code;
  return entry.is_directory(code) && !entry.is_symlink(code);
}

bool is_file(const fs::directory_entry& entry) {
  std::error_code code;
  return entry.is_regular_file(code);
}

Status walk_folder(const Path& folder, const std::vector<std::string>& include,
                   std::vector<Path>& found) {
  LEEWAY_ASSIGN(const auto entries, entries_of(folder));
  for (const fs::directory_entry& entry : entries) {
    if (is_hidden(entry.path()) || is_data_folder(entry.path())) continue;  // Not text.
    if (is_real_folder(entry)) {
      LEEWAY_TRY(walk_folder(entry.path(), include, found));
    } else if (is_file(entry) && included(include, entry.path())) {
      found.push_back(entry.path());
    }
  }
  return {};
}

// Matches the parts of a pattern from `part` on against the files under `base`. Only an unreadable
// base is an error: the caller reports a pattern that finds nothing.
Status expand(const Path& base, const std::vector<std::string>& parts, size_t part,
              std::vector<Path>& found) {
  const bool last = part + 1 == parts.size();
  if (!is_pattern(parts[part])) {
    const Path next = base / parts[part];
    std::error_code code;
    if (last && fs::is_regular_file(next, code)) found.push_back(next);
    return last || !fs::is_directory(next, code) ? Status() : expand(next, parts, part + 1, found);
  }
  const bool any_depth = parts[part] == "**";
  if (any_depth && !last) LEEWAY_TRY(expand(base, parts, part + 1, found));
  LEEWAY_ASSIGN(const auto entries, entries_of(base));
  for (const fs::directory_entry& entry : entries) {
    const Path next = base / entry.path().filename();
    if (any_depth) {
      if (is_hidden(next)) continue;
      if (is_real_folder(entry)) LEEWAY_TRY(expand(next, parts, part, found));
      if (last && is_file(entry)) found.push_back(next);
    } else if (matches(parts[part], next.filename().string())) {
      std::error_code code;
      if (last && is_file(entry)) found.push_back(next);
      if (!last && entry.is_directory(code)) LEEWAY_TRY(expand(next, parts, part + 1, found));
    }
  }
  return {};
}

Status expand_pattern(const std::string& pattern, std::vector<Path>& found) {
  const Path path(pattern);
  std::vector<std::string> parts;
  for (const Path& part : path.relative_path()) {
    if (!part.empty()) parts.push_back(part.string());
  }
  const size_t before = found.size();
  LEEWAY_TRY(expand(path.root_path(), parts, 0, found));
  if (found.size() == before) {
    return Error{
        fmt::format("no file matches {} (check the pattern; * stays within one folder, ** "
                    "also searches subfolders)",
                    pattern)};
  }
  // "**" finds the files of one folder in several steps; sorting by path fixes their order.
  std::sort(found.begin() + static_cast<std::ptrdiff_t>(before), found.end());
  found.erase(std::unique(found.begin() + static_cast<std::ptrdiff_t>(before), found.end()),
              found.end());
  return {};
}

Result<InputFile> describe(const Path& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return file_error("read", path, errno);
  const bool regular = S_ISREG(info.st_mode);
  return InputFile{.path = path,
                   .bytes = regular ? static_cast<uint64_t>(info.st_size) : 0,
                   .size_known = regular,
                   .modified_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace

Result<std::vector<InputFile>> find_inputs(const std::vector<std::string>& inputs,
                                           const std::vector<std::string>& include) {
  std::vector<InputFile> files;
  for (const std::string& input : inputs) {
    if (input == "-") {
      files.push_back({.path = "-"});
      continue;
    }
    std::vector<Path> found;
    std::error_code code;
    bool named = false;
    if (fs::is_directory(input, code)) {
      if (is_data_folder(input)) {
        return usage_error(
            fmt::format("{} is a folder made by `leeway data prepare`, not text; "
                        "name the text that it was made from",
                        input));
      }
      LEEWAY_TRY(walk_folder(input, include, found));
      if (found.empty()) {
        return Error{fmt::format("no files to read in the folder {} (check the path{})", input,
                                 include.empty() ? "" : " and --include")};
      }
    } else if (is_pattern(input) && !fs::exists(input, code)) {
      LEEWAY_TRY(expand_pattern(input, found));
    } else {
      found.push_back(input);  // Named explicitly: even a pipe.
      named = true;
    }
    for (const Path& path : found) {
      LEEWAY_ASSIGN(InputFile file, describe(path));
      file.found = !named;
      files.push_back(std::move(file));
    }
  }
  return files;
}

uint64_t hash_inputs(const std::vector<InputFile>& files) {
  StreamingHash hash;
  for (const InputFile& file : files) {
    hash.add(
        as_bytes(fmt::format("{}\n{}\n{}\n", file.path.string(), file.bytes, file.modified_ns)));
  }
  return hash.digest();
}

}  // namespace leeway
