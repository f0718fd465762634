// Checks where a command writes before it does any work, which may take a while.
#pragma once

#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace leeway::cli {

// The extension and the first bytes of a kind of file that a command writes.
struct OutputKind {
  std::string_view ending;
  std::string_view opening;
};
inline constexpr OutputKind kReportFile = {".html", "<!doctype html>\n<html lang="};
inline constexpr OutputKind kTimelinePicture = {".svg", "<svg xmlns="};
inline constexpr OutputKind kTrace = {".json", R"({"displayTimeUnit":)"};
inline constexpr OutputKind kPlannedRecipe = {".toml", "# Proposed by `leeway plan`.\n"};

// The folder must exist and the extension must be that of `kind`. An existing file is overwritten
// only if it begins like one: it could be the user's data.
Status check_output_file(const char* option, const Path& path, const OutputKind& kind);

// The path must not be a file; a missing folder is fine.
Status check_output_folder(const char* option, const Path& path);

}  // namespace leeway::cli
