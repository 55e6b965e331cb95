#include "exchange/cuda/peer_memory.h"

#include <cstring>
#include <stdexcept>

#include "device/cuda_check.h"

namespace frugal::cuda {
namespace {

// Words of the others, then the counters of this rank, then the parts of all ranks.
constexpr std::size_t kCounters = kMostRanks * kExchangeLine, kParts = kCounters + kExchangeLine;

std::uint64_t* word_of(char* memory, int rank) {
  return reinterpret_cast<std::uint64_t*>(memory + static_cast<std::size_t>(rank) * kExchangeLine);
}

}  // namespace

bool reach_each_other(int device, int other) {
  if (device == other) return true;
  int there = 0, back = 0;
  return cudaDeviceCanAccessPeer(&there, device, other) == cudaSuccess &&
         cudaDeviceCanAccessPeer(&back, other, device) == cudaSuccess && there && back;
}

PeerMemory::PeerMemory(HostExchange& exchange) : host_(exchange) {
  const std::size_t bytes = kParts + static_cast<std::size_t>(host_.ranks()) * part_floats() * sizeof(float);
  cuda_check(cudaMalloc(reinterpret_cast<void**>(&memory_), bytes), "cudaMalloc",
             std::to_string(bytes) + " bytes for the exchange between ranks");
  try {
    cuda_check(cudaMemset(memory_, 0, bytes), "cudaMemset");
    cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  } catch (...) {
    release();
    throw;
  }
}

std::int64_t PeerMemory::part_floats() const { return host_.floats(0) + host_.floats(1); }

float* PeerMemory::part_in(char* memory, int rank) const {
  return reinterpret_cast<float*>(memory + kParts) + rank * part_floats();
}

PeerMemory::~PeerMemory() { release(); }

void PeerMemory::release() {
  for (void* each : opened_) cudaIpcCloseMemHandle(each);
  opened_.clear();
  cudaFree(memory_);
  cudaGetLastError();  // at exit the driver may be gone already
  memory_ = nullptr;
}

std::string PeerMemory::handle() const {
  cudaIpcMemHandle_t handle;
  cuda_check(cudaIpcGetMemHandle(&handle, memory_), "cudaIpcGetMemHandle", "--peer off does without");
  return {reinterpret_cast<const char*>(&handle), sizeof handle};
}

void PeerMemory::connect(const std::vector<std::string>& handles) {
  const int rank = host_.rank(), ranks = host_.ranks();
  if (!handles.empty() && static_cast<int>(handles.size()) != ranks)
    throw std::invalid_argument("one handle for each rank");
  DeviceExchange x{};
  x.rank = rank;
  x.ranks = ranks;
  x.failed = &host_.words().failed;
  x.posted = reinterpret_cast<std::uint64_t*>(memory_ + kCounters);
  x.blocks_done = reinterpret_cast<unsigned*>(x.posted + 1);
  x.blocks_sent = x.blocks_done + 1;
  x.near = !handles.empty();
  x.second = host_.floats(0);
  x.part[rank] = part_in(memory_, rank);
  x.mirrors.own = x.own();
  if (!x.near) x.mirrors.at[x.mirrors.count++] = host_.part(0);
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    if (!x.near) {
      x.part[other] = host_.part(0, other);
      x.tell[other] = &host_.words().word[rank].posted;
      x.hear[other] = &host_.words().word[other].posted;
      continue;
    }
    cudaIpcMemHandle_t handle;
    if (handles[other].size() != sizeof handle) throw std::invalid_argument("this is no handle of a rank's memory");
    std::memcpy(&handle, handles[other].data(), sizeof handle);
    void* there = nullptr;
    cuda_check(cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle",
               "--peer off does without");
    opened_.push_back(there);
    x.part[other] = part_in(memory_, other);
    x.mirrors.at[x.mirrors.count++] = part_in(static_cast<char*>(there), rank);
    x.tell[other] = word_of(static_cast<char*>(there), rank);
    x.hear[other] = word_of(memory_, other);
  }
  device_ = x;
}

}  // namespace frugal::cuda
