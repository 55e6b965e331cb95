#include "base/parallel/shared_mapping.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace frugal {
namespace {

std::runtime_error refused(const char* what, std::int64_t bytes) {
  return std::runtime_error(std::string("cannot ") + what + " " + std::to_string(bytes) +
                            " bytes of host memory: " + std::strerror(errno));
}

}  // namespace

SharedMapping::SharedMapping(const char* name, std::int64_t bytes) : bytes_(bytes) {
  if (name != nullptr) {
    SharedMapping made;  // closes the file if there is no room
    made.file_ = memfd_create(name, MFD_CLOEXEC);
    if (made.file_ < 0 || ftruncate(made.file_, bytes) != 0) throw refused("share", bytes);
    file_ = std::exchange(made.file_, -1);
    path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_);
  }
  map();
}

SharedMapping::SharedMapping(const std::string& path) : path_(path) {
  file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (file_ < 0 || fstat(file_, &status) != 0 || status.st_size == 0) {
    if (file_ >= 0) ::close(file_);
    throw std::runtime_error("there is no shared memory at " + path);
  }
  bytes_ = status.st_size;
  map();
}

void SharedMapping::map() {
  const int flags = MAP_NORESERVE | (file_ < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
  void* const memory = mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE, flags, file_, 0);
  if (memory == MAP_FAILED) {
    const std::runtime_error error = refused("map", bytes_);
    if (file_ >= 0) ::close(file_);
    throw error;
  }
  data_ = static_cast<char*>(memory);
}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  return *this;
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
  if (file_ >= 0) ::close(file_);
}

OtherProcess::~OtherProcess() {
  if (file_ >= 0) ::close(file_);
}

bool OtherProcess::has_ended(std::int32_t pid) {
  if (file_ < 0) file_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (file_ < 0) return errno == ESRCH;
  pollfd state{file_, POLLIN, 0};
  return poll(&state, 1, 0) == 1;
}

}  // namespace frugal
