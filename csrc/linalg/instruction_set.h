// The namespace of code that is compiled once per instruction set: FRUGAL_ISA, which the build sets for the special ones.
//
// Such code uses nothing inline from the standard library: the linker keeps one copy of an inline function, and if that
// were the AVX-512 one, an older processor would meet it.
#pragma once

#ifndef FRUGAL_ISA
#define FRUGAL_ISA baseline
#endif
