// LEEWAY_SIMD before a function compiles it once per vector width; the loader picks the version
// that fits the machine, so one binary runs everywhere. Templates and functions with internal
// linkage are fine; functions that they call are compiled for each width only if they are inlined.
#pragma once

// Not with sanitizers: ifunc resolvers run before the sanitizer runtime is ready.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LEEWAY_SIMD __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LEEWAY_SIMD
#endif

// For a loop that several such functions share: always inlined, however large.
#define LEEWAY_SIMD_BODY [[gnu::always_inline]] inline

// Before a function that kernels of a GPU call too.
#if defined(__CUDACC__)
#define LEEWAY_ON_DEVICE __host__ __device__
#else
#define LEEWAY_ON_DEVICE
#endif

// Before a loop whose iterations do not depend on each other, which the compiler cannot see.
#if defined(__clang__)
#define LEEWAY_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LEEWAY_INDEPENDENT _Pragma("GCC ivdep")
#endif
