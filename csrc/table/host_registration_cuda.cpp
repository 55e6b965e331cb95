#include "base/device/cuda_check.h"
#include "table/host_registration.h"

namespace frugal {
namespace {

std::string gibibytes(std::size_t bytes) {
  const double value = static_cast<double>(bytes) / (std::size_t{1} << 30);
  std::string text = std::to_string(value);
  return text.substr(0, text.find('.') + 3) + " GiB";
}

}  // namespace

HostRegistration::HostRegistration(void* address, std::size_t bytes)
    : address_(static_cast<char*>(address)), bytes_(bytes) {
  if (bytes == 0) throw DeviceError("cannot register zero bytes of host memory");
  const auto add = [&](std::size_t offset, std::size_t size) {
    cuda_check(cudaHostRegister(address_ + offset, size, cudaHostRegisterMapped | cudaHostRegisterPortable),
               "cudaHostRegister",
               gibibytes(offset) + " of a table of " + gibibytes(bytes) + " were registered and are released again; " +
                   memlock_limit_sentence());
    void* mapped = nullptr;
    const cudaError_t status = cudaHostGetDevicePointer(&mapped, address_ + offset, 0);
    if (status != cudaSuccess || mapped != address_ + offset) {
      cudaHostUnregister(address_ + offset);
      cuda_check(status, "cudaHostGetDevicePointer");
      throw DeviceError("this device sees registered host memory at another address");
    }
  };
  all_or_nothing(bytes, kRegistrationChunk, add, [&](std::size_t offset) { cudaHostUnregister(address_ + offset); });
}

HostRegistration::~HostRegistration() {
  for (std::size_t offset = 0; offset < bytes_; offset += kRegistrationChunk) cudaHostUnregister(address_ + offset);
  cudaGetLastError();  // at exit the driver may be gone already
}

}  // namespace frugal
