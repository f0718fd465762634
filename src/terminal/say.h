// Text for a terminal, pipe or file that may be closed, full or stopped. Terminal trouble never
// stops the work: nothing here throws.
#pragma once

#include <string_view>

namespace leeway {

// To standard error. What would have to wait (Ctrl-S, a pipe that nobody reads) is dropped: this is
// called while workers train.
void say(std::string_view text);

// To standard error, however long it takes: for last words.
void print_error(std::string_view text);

}  // namespace leeway
