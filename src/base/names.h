// Names of folders.
#pragma once

#include <string>
#include <string_view>

#include "base/files.h"

namespace leeway {

// "async + sparse" -> "async_sparse": letters that need no quotes in any shell, and no hidden file.
// `otherwise`: where nothing is left.
std::string plain_name(std::string_view text, std::string_view otherwise);

// out/r1/ -> out/r1: the path of a folder as one that has a name.
inline Path without_slash(const Path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace leeway
