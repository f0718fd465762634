// The command line: parse it, run the chosen action, turn errors into exit codes.
#pragma once

namespace leeway::cli {

// Returns the exit code. 0: success. 1: failure. 2: invalid command line or recipe.
int run(int argc, char** argv);

}  // namespace leeway::cli
