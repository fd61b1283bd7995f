/* clones.h - a function compiled for each instruction set, chosen when the
 * program is loaded: for loops that a compiler turns into vectors by itself.
 *
 * Sums in such functions have a fixed order, so that only fused multiply-adds
 * differ between CPUs.  Not under sanitizers: they can't run that early. */
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&         \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TS_CLONES                                                              \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TS_CLONES
#endif
