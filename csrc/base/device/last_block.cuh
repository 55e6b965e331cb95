// Which block of a kernel is done last: by then all others have stored what they store.
#pragma once

namespace frugal::cuda {

// By all threads of a block, behind what they have stored: whether all other blocks of the kernel have come here. If
// so, what these have stored happens before what follows, and before whatever reads a word that follows with a release
// at system scope. One thread of a block has fences for all, since a barrier hands on what the others have done (PTX's
// memory consistency model, causality order); and not at system scope, where a fence waits for all that is on its way
// to host memory, as does the end of every kernel that runs at the same time. turn: in device memory, 0 between
// kernels.
__device__ inline bool is_last_block(unsigned* turn) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicInc(turn, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

}  // namespace frugal::cuda
