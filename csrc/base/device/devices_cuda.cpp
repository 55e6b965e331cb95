#include "base/device/cuda_check.h"
#include "base/device/devices.h"

namespace frugal {

DeviceList list_devices(bool with_free_memory) {
  DeviceList list;
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    cudaGetLastError();
    int driver = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) {
      list.reason = "there is no NVIDIA driver on this machine";
      return list;
    }
    list.reason = std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")";
    return list;
  }
  if (count == 0) list.reason = "the driver reports no device (is CUDA_VISIBLE_DEVICES empty?)";
  int current = 0;
  if (count > 0) cudaGetDevice(&current);
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties;
    cuda_check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties(" + std::to_string(index) + ")");
    Device device{index,
                  properties.name,
                  properties.major,
                  properties.minor,
                  properties.multiProcessorCount,
                  static_cast<std::int64_t>(properties.totalGlobalMem),
                  -1,
                  "",
                  false};
    char bus[32] = "";
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, index) == cudaSuccess) device.pci_bus = bus;
    int same = 0;
    cudaDeviceGetAttribute(&same, cudaDevAttrCanUseHostPointerForRegisteredMem, index);
    device.reads_host_by_same_address = same != 0;
    std::size_t free = 0, total = 0;
    if (with_free_memory && cudaSetDevice(index) == cudaSuccess && cudaMemGetInfo(&free, &total) == cudaSuccess)
      device.free_bytes = static_cast<std::int64_t>(free);
    cudaGetLastError();
    list.devices.push_back(std::move(device));
  }
  if (with_free_memory && count > 0) cudaSetDevice(current);
  return list;
}

}  // namespace frugal
