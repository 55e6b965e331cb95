#include "device/device_error.h"
#include "memory/host_registration.h"

namespace frugal {

HostRegistration::HostRegistration(void* address, std::size_t bytes)
    : address_(static_cast<char*>(address)), bytes_(bytes) {
  refuse_cuda();
}

HostRegistration::~HostRegistration() = default;

}  // namespace frugal
