// Which files a user means: files, folders, patterns and "-", in an order that is always the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

struct InputFile {
  Path path;                // "-": standard input
  uint64_t bytes = 0;       // as stored
  bool size_known = false;  // standard input and pipes do not tell
  int64_t modified_ns = 0;  // with path and size: whether the file is still the same

  bool is_stdin() const { return path == "-"; }
};

// Expands what was given, in the order given. A folder is walked in the order of its names, hidden
// files and folders left out; `include` patterns, if any, choose among the files of folders by name
// ("*.py" also finds x.py.gz). Patterns know * ? [abc] within a name and ** for any depth of
// folders. A file that is named twice comes twice: that is how one gives it more weight.
Result<std::vector<InputFile>> find_inputs(const std::vector<std::string>& inputs,
                                           const std::vector<std::string>& include);

// Of paths, sizes and times: changes when any of the files does.
uint64_t hash_inputs(const std::vector<InputFile>& files);

}  // namespace leeway
