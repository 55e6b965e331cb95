// Memory that processes of one machine share, and whether such a process still lives.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace frugal {

// Zeroed memory that others map by its path while the process that made it lives; it has no name in a file system.
class SharedMapping {
 public:
  SharedMapping() = default;  // none
  // name: under which the system lists it; null for memory that nobody else maps. Throws std::runtime_error.
  SharedMapping(const char* name, std::int64_t bytes);
  // Memory that this or another process has made. Throws std::runtime_error if there is none.
  explicit SharedMapping(const std::string& path);
  SharedMapping(SharedMapping&& other) noexcept { *this = std::move(other); }
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping();

  char* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }  // empty: nobody else maps it

 private:
  void map();

  char* data_ = nullptr;
  std::int64_t bytes_ = 0;
  int file_ = -1;
  std::string path_;
};

// Another process. Its file tells it from a later process with the same number.
class OtherProcess {
 public:
  OtherProcess() = default;
  OtherProcess(OtherProcess&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  OtherProcess& operator=(OtherProcess&&) = delete;
  ~OtherProcess();

  // pid: the same in each call. A zombie has ended.
  bool has_ended(std::int32_t pid);

 private:
  int file_ = -1;
};

}  // namespace frugal
