#include "base/device/device_error.h"
#include "table/host_registration.h"

namespace frugal {

HostRegistration::HostRegistration(void* address, std::size_t bytes)
    : address_(static_cast<char*>(address)), bytes_(bytes) {
  refuse_cuda();
}

HostRegistration::~HostRegistration() = default;

}  // namespace frugal
