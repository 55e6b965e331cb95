// CUDA's language on a CPU: a block's threads are contexts that take turns, and wait where the block or its lanes
// synchronise.
//
// Blocks run one after the other, their threads now in ascending and now in descending order. Shared memory is static;
// what a launch asks for is filled with NaN. Arithmetic is IEEE's, as on a device; approximate instructions differ.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#define __CUDACC__ 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static

struct dim3 {
  unsigned x = 0, y = 0, z = 0;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
struct uint2 {
  unsigned x, y;
};
inline dim3 threadIdx, blockIdx, gridDim, blockDim;

using cudaStream_t = void*;
inline constexpr int cudaFuncAttributeMaxDynamicSharedMemorySize = 0;
template <typename Kernel>
int cudaFuncSetAttribute(Kernel, int, int) {
  return 0;
}
inline int cudaGetLastError() { return 0; }

namespace emulation {

inline constexpr unsigned kWarp = 32;

struct Thread {
  ucontext_t context;  // where it begins
  void* place[5];      // where it goes on
  bool begun = false;
  std::vector<char> stack = std::vector<char>(128 << 10);
  bool done = false;
};

// A place where some threads wait for each other.
struct Barrier {
  int waiting = 0;
  unsigned times = 0;
};

inline std::vector<std::unique_ptr<Thread>> threads;
inline void* scheduler[5];
inline Thread* running;
inline int alive;
inline std::function<void()> kernel;
inline Barrier block_barrier;
inline std::map<std::pair<unsigned, unsigned>, Barrier> lane_barriers;  // by warp and mask
inline std::vector<std::uint64_t> told;                                 // what each thread tells its warp
inline std::vector<float> dynamic;

inline float* dynamic_shared() {
  return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(dynamic.data()) + 15) / 16 * 16);
}
// From one stack to another by the compiler's own jumps: swapcontext takes two system calls, half of the tests' time.
// A jump and the place where it ends must not be in one function, nor come to be by inlining.
[[noreturn, gnu::noinline]] inline void go_on(void** place) { __builtin_longjmp(place, 1); }
[[gnu::noinline]] inline void let_others_run() {
  if (__builtin_setjmp(running->place) == 0) go_on(scheduler);
}
[[gnu::noinline]] inline void let_run(Thread* thread) {
  running = thread;
  if (__builtin_setjmp(scheduler) != 0) return;
  if (running->begun) go_on(running->place);
  running->begun = true;
  setcontext(&running->context);
}
inline void run_thread() {
  kernel();
  running->done = true;
  --alive;
  let_others_run();
}

inline void sync_block() {
  const unsigned before = block_barrier.times;
  ++block_barrier.waiting;
  while (block_barrier.times == before) let_others_run();
}
inline void sync_lanes(unsigned mask) {
  Barrier& barrier = lane_barriers[{threadIdx.x / kWarp, mask}];
  const unsigned before = barrier.times;
  if (++barrier.waiting == __builtin_popcount(mask)) {
    barrier.waiting = 0;
    ++barrier.times;
    return;
  }
  while (barrier.times == before) let_others_run();
}
// What lane `from` says.
template <typename T>
T exchange(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::memcpy(&told[threadIdx.x], &value, sizeof(T));
  sync_lanes(mask);
  std::memcpy(&value, &told[threadIdx.x / kWarp * kWarp + from], sizeof(T));
  sync_lanes(mask);
  return value;
}

inline void run_block(unsigned block, unsigned size) {
  constexpr int kMostRounds = 1 << 20;
  blockIdx.x = block;
  alive = static_cast<int>(size);
  block_barrier = {};
  lane_barriers.clear();
  for (unsigned t = 0; t < size; ++t) {
    Thread& thread = *threads[t];
    thread.done = thread.begun = false;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = thread.stack.size();
    thread.context.uc_link = nullptr;  // run_thread does not return
    makecontext(&thread.context, run_thread, 0);
  }
  for (int round = 0; alive > 0; ++round) {
    if (round == kMostRounds) throw std::logic_error("threads of a block wait for each other forever");
    for (unsigned turn = 0; turn < size; ++turn) {
      const unsigned t = round % 2 == 0 ? turn : size - 1 - turn;
      if (threads[t]->done) continue;
      threadIdx.x = t;
      let_run(threads[t].get());
    }
    if (block_barrier.waiting > 0 && block_barrier.waiting == alive) {  // threads that returned are not waited for
      block_barrier.waiting = 0;
      ++block_barrier.times;
    }
  }
}

inline void launch(unsigned blocks, unsigned size, std::size_t bytes, std::function<void()> body) {
  kernel = std::move(body);
  gridDim.x = blocks;
  blockDim.x = size;
  dynamic.assign(bytes / sizeof(float) + 8, NAN);
  told.assign((size + kWarp - 1) / kWarp * kWarp, 0);
  while (threads.size() < size) threads.push_back(std::make_unique<Thread>());
  for (unsigned block = 0; block < blocks; ++block) run_block(block, size);
}

template <typename To, typename From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

}  // namespace emulation

inline void __syncthreads() { emulation::sync_block(); }
inline void __syncwarp(unsigned mask = ~0u) { emulation::sync_lanes(mask); }
inline int __syncthreads_or(int vote) {
  static int votes;
  if (threadIdx.x == 0) votes = 0;
  emulation::sync_block();
  votes |= vote;
  emulation::sync_block();
  const int any = votes;
  emulation::sync_block();
  return any;
}
inline void __threadfence() {}
inline void __threadfence_system() {}
inline unsigned atomicMax(unsigned* to, unsigned value) {
  const unsigned before = *to;
  if (value > before) *to = value;
  return before;
}
inline int atomicAdd(int* to, int value) { return std::exchange(*to, *to + value); }
inline unsigned atomicInc(unsigned* to, unsigned most) {  // no two threads run at a time
  const unsigned before = *to;
  *to = before >= most ? 0 : before + 1;
  return before;
}
template <typename T>
T __ldcv(const T* from) {
  return *from;
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return emulation::exchange(mask, value, threadIdx.x % emulation::kWarp / width * width + lane % width);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int other, int = 32) {
  return emulation::exchange(mask, value, threadIdx.x % emulation::kWarp ^ other);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, int by, int = 32) {
  const unsigned from = threadIdx.x % emulation::kWarp + by;
  return emulation::exchange(mask, value, from < emulation::kWarp ? from : threadIdx.x % emulation::kWarp);
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
  emulation::told[threadIdx.x] = vote;
  emulation::sync_lanes(mask);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < emulation::kWarp; ++lane)
    if (mask >> lane & 1)  // others may say what is no vote
      votes |= static_cast<unsigned>(emulation::told[threadIdx.x / emulation::kWarp * emulation::kWarp + lane]) << lane;
  emulation::sync_lanes(mask);
  return votes;
}
inline bool __all_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) == mask; }

inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline unsigned __float_as_uint(float a) { return emulation::bits<unsigned>(a); }
inline int __float_as_int(float a) { return emulation::bits<int>(a); }
inline float __int_as_float(int a) { return emulation::bits<float>(a); }
inline float __uint_as_float(unsigned a) { return emulation::bits<float>(a); }
