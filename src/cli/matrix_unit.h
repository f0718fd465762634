#pragma once

namespace leeway::cli {

// Some virtual machines advertise the AMX matrix unit but do not let a process use it; oneDNN then
// picks it for bf16 products and the program ends in SIGILL. If so, tells oneDNN to do without.
// A choice that the user made in the environment stands.
void avoid_unusable_matrix_unit();

}  // namespace leeway::cli
