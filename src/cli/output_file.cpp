#include "cli/output_file.h"

#include <fmt/format.h>

#include <fstream>

namespace leeway::cli {
namespace {

// True for an empty file too: overwriting it loses nothing.
bool begins_with(const Path& path, std::string_view opening) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(opening.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return file.is_open() && (file.gcount() == 0 || begin == opening);
}

}  // namespace

Status check_output_file(const char* option, const Path& path, const OutputKind& kind) {
  std::error_code code;
  const Path folder = path.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, code)) {
    return usage_error(fmt::format("{} {}: there is no folder {}; create it first", option,
                                   path.string(), folder.string()));
  }
  if (std::filesystem::is_directory(path, code)) {
    return usage_error(fmt::format("{} {} is a folder; name a file in it", option, path.string()));
  }
  if (path.extension() != kind.ending) {
    return usage_error(
        fmt::format("{} {}: the file name must end in {}", option, path.string(), kind.ending));
  }
  if (std::filesystem::exists(path, code) && !begins_with(path, kind.opening)) {
    return usage_error(fmt::format(
        "{} {}: the file exists and was not written by this command; remove it, or choose another "
        "name",
        option, path.string()));
  }
  return {};
}

Status check_output_folder(const char* option, const Path& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code) || std::filesystem::is_directory(path, code)) return {};
  return usage_error(fmt::format("{} {} is a file; name a folder", option, path.string()));
}

}  // namespace leeway::cli
