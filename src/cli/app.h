// The command line as a whole: parse, run the chosen action, turn errors into exit codes.
#pragma once

namespace leeway::cli {

// 0: done. 1: failed. 2: the command line or the recipe is wrong.
int run(int argc, char** argv);

}  // namespace leeway::cli
