// What can be known about device memory without a device: registration in chunks, NUMA lists, and sentences for
// errors.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "base/device/device_error.h"
#include "base/device/devices.h"
#include "table/host_registration.h"
#include "table/numa.h"

namespace frugal {
namespace {

using Pieces = std::vector<std::pair<std::size_t, std::size_t>>;

TEST(AllOrNothing, CoversEveryByteOnce) {
  for (const std::size_t bytes : {1u, 9u, 10u, 11u, 20u, 25u}) {
    Pieces pieces;
    all_or_nothing(
        bytes, 10, [&](std::size_t at, std::size_t size) { pieces.emplace_back(at, size); },
        [](std::size_t) { FAIL(); });
    std::size_t end = 0;
    for (const auto& [at, size] : pieces) {
      EXPECT_EQ(at, end);
      EXPECT_LE(size, 10u);
      end += size;
    }
    EXPECT_EQ(end, bytes);
  }
}

TEST(AllOrNothing, TakesBackWhatItDidWhenOnePieceFails) {
  std::vector<std::size_t> removed;
  EXPECT_THROW(all_or_nothing(
                   45, 10,
                   [](std::size_t at, std::size_t) {
                     if (at == 30) throw std::runtime_error("memlock");
                   },
                   [&](std::size_t at) { removed.push_back(at); }),
               std::runtime_error);
  EXPECT_EQ(removed, (std::vector<std::size_t>{20, 10, 0}));
}

TEST(HostRegistration, SaysWhyItCannot) {
  if (!list_devices(false).devices.empty()) GTEST_SKIP() << "this machine has a device";
  alignas(4096) static char page[4096];
  try {
    const HostRegistration registration(page, sizeof page);
    FAIL() << "registered memory without a device";
  } catch (const DeviceError& error) {
    const std::string messages = error.what();  // of a build without CUDA, or of CUDA without a device
    EXPECT_TRUE(messages == kBuiltWithoutCuda || messages.find("egister") != std::string::npos) << messages;
  }
  EXPECT_FALSE(list_devices(true).reason.empty());
}

TEST(Numa, ReadsTheKernelsLists) {
  EXPECT_EQ(parse_node_list("0"), (std::vector<int>{0}));
  EXPECT_EQ(parse_node_list("0-2,7,9-10"), (std::vector<int>{0, 1, 2, 7, 9, 10}));
  EXPECT_EQ(parse_node_list(""), std::vector<int>{});
  for (const char* wrong : {"a", "0-", "3-1", "0,,1", "-1", "0 1"})
    EXPECT_THROW(parse_node_list(wrong), std::invalid_argument) << wrong;
}

TEST(Numa, InterleavedPagesAreOrdinaryMemory) {
  constexpr std::size_t kBytes = 1 << 20;
  void* const pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const Interleaving result = interleave_pages(pages, kBytes);
  EXPECT_GE(result.nodes, 1);
  static_cast<char*>(pages)[kBytes - 1] = 1;
  EXPECT_EQ(munmap(pages, kBytes), 0);
}

}  // namespace
}  // namespace frugal
