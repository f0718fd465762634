// Where a command may write: said before any work is done, which may take a while.
#pragma once

#include "base/files.h"
#include "base/result.h"

namespace leeway::cli {

// A file in a folder that is there.
Status check_output_file(const char* option, const Path& path);

// A folder that is there or can be made.
Status check_output_folder(const char* option, const Path& path);

}  // namespace leeway::cli
