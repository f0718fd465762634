// What commands with many processes share: ids, keys, and where sentences go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "config/recipe.h"
#include "drivers/loop/post.h"

namespace leeway::cli {

// What this machine calls itself.
std::string this_machine();

// Another one for every process that was ever started.
ProcessId new_process_id(const Clock& clock);

// Whether an address to listen at can be reached from this machine alone.
bool is_here_only(const std::string& address);

// Every rank of a job needs at least one worker.
Status check_ranks(const Recipe& recipe, int64_t ranks);

// For a sentence while a progress bar may be drawn by another thread.
void say_aside(const std::string& sentence);

// What became of the logs of a run's processes.
void say_what_is_missing(const Result<std::vector<std::string>>& merged);

}  // namespace leeway::cli
