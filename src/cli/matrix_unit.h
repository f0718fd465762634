#pragma once

namespace leeway::cli {

// Some virtual machines advertise the AMX matrix unit but do not let a process use it; oneDNN then
// picks it for bf16 products and the program dies of SIGILL. If so, tells oneDNN not to use it.
// A value set by the user in the environment wins.
void avoid_unusable_matrix_unit();

}  // namespace leeway::cli
