// Ctrl-C, SIGTERM and a closed terminal as a question that a loop can ask. The first one asks for a
// clean end, the second ends the program as usual.
#pragma once

namespace leeway {

void watch_for_interrupt();
bool interrupted();

}  // namespace leeway
