#include "cli/output_file.h"

#include <fmt/format.h>

namespace leeway::cli {

Status check_output_file(const char* option, const Path& path) {
  std::error_code code;
  const Path folder = path.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, code)) {
    return usage_error(fmt::format("{} {}: there is no folder {}; make it first", option,
                                   path.string(), folder.string()));
  }
  if (std::filesystem::is_directory(path, code)) {
    return usage_error(fmt::format("{} {} is a folder; name a file in it", option, path.string()));
  }
  return {};
}

Status check_output_folder(const char* option, const Path& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code) || std::filesystem::is_directory(path, code)) return {};
  return usage_error(fmt::format("{} {} is a file; name a folder", option, path.string()));
}

}  // namespace leeway::cli
