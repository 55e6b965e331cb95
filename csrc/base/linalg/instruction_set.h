// The namespace of code that is compiled once per instruction set: FRUGAL_ISA, which the build sets for the special
// ones.
//
// Such code uses nothing inline from the standard library: the linker keeps one copy of an inline function, and if that
// were the AVX-512 one, an older processor would run it.
#pragma once

#ifdef __CUDACC__
#define FRUGAL_ISA cuda
#define FRUGAL_DEVICE __device__ __forceinline__
#define FRUGAL_LANES static __device__ __forceinline__
#else
#ifndef FRUGAL_ISA
#define FRUGAL_ISA baseline
#endif
#define FRUGAL_DEVICE               // a member function that a CUDA device may run
#define FRUGAL_LANES static inline  // a function on vectors
#endif
