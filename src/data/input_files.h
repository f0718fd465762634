// Finds the files that a user means by files, folders, patterns and "-", always in the same order.
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
  bool size_known = false;  // false for standard input and pipes
  int64_t modified_ns = 0;  // with path and size, tells whether the file is still the same
  bool found = false;       // in a folder or by a pattern, so it may be something else than text

  bool is_stdin() const { return path == "-"; }
  std::string name() const { return is_stdin() ? "standard input" : path.string(); }
};

// Expands the inputs in the order given. Folders are walked in name order, without hidden files and
// folders; `include` patterns, if any, select the files of folders by name ("*.py" also finds
// x.py.gz). Patterns support * ? [abc] within a name and ** for any depth of folders. A file that
// is named twice comes twice, to give it more weight.
Result<std::vector<InputFile>> find_inputs(const std::vector<std::string>& inputs,
                                           const std::vector<std::string>& include);

// Hash of paths, sizes and times: changes if any of the files does.
uint64_t hash_inputs(const std::vector<InputFile>& files);

}  // namespace leeway
