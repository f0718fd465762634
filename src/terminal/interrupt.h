// Turns Ctrl-C, SIGTERM and a closed terminal into a flag that a loop can poll. The first signal
// asks for a clean end, the second ends the program as usual.
#pragma once

namespace leeway {

void watch_for_interrupt();
bool interrupted();

}  // namespace leeway
