// LEEWAY_SIMD before a function: it is compiled once per width of vector unit, and the loader picks
// what the machine has. The binary stays one that runs everywhere. Templates and functions of
// internal linkage are fine; what they call is compiled for each width only where it is inlined.
#pragma once

// Sanitizers instrument code that runs before they are ready to be called from an ifunc resolver.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LEEWAY_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LEEWAY_SIMD
#endif

// For a loop that several such functions share: inlined, whatever the compiler thinks of its size.
#define LEEWAY_SIMD_BODY [[gnu::always_inline]] inline
