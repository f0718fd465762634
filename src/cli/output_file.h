// Where a command may write: said before any work is done, which may take a while.
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace leeway::cli {

// How the name of what a command writes ends, and how the file begins.
struct OutputKind {
  std::string_view ending;
  std::string_view opening;
};
inline constexpr OutputKind kReportPage = {".html", "<!doctype html>\n<html lang="};
inline constexpr OutputKind kTimelinePage = {".html", "<!DOCTYPE html>\n<html lang="};
inline constexpr OutputKind kTimelinePicture = {".svg", "<svg xmlns="};
inline constexpr OutputKind kTrace = {".json", R"({"displayTimeUnit":)"};
inline constexpr OutputKind kPlannedRecipe = {".toml", "# Proposed by `leeway plan`.\n"};

// A file of one of these kinds, in a folder that is there. A file that is there already is written
// over only if it begins as one: it may be somebody's data.
Status check_output_file(const char* option, const Path& path,
                         std::initializer_list<OutputKind> kinds);

// A folder that is there or can be made.
Status check_output_folder(const char* option, const Path& path);

}  // namespace leeway::cli
