// Marks a function that host and device both run.
#pragma once

#ifdef __CUDACC__
#define FRUGAL_EVERYWHERE __host__ __device__
#else
#define FRUGAL_EVERYWHERE
#endif
