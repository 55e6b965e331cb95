#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/parallel/shared_mapping.h"

namespace frugal {
namespace {

TEST(SharedMapping, IsTheSameMemoryForWhoeverMapsItsPath) {
  SharedMapping first("frugal-test", 5000);
  first.data()[4999] = 7;
  SharedMapping second(first.path());
  EXPECT_EQ(second.bytes(), 5000);
  EXPECT_EQ(second.path(), first.path());
  EXPECT_EQ(second.data()[4999], 7);
  EXPECT_EQ(second.data()[0], 0);
  const std::string path = first.path();
  SharedMapping moved = std::move(first);
  moved = SharedMapping(nullptr, 10);  // nobody has the first one any more
  EXPECT_TRUE(moved.path().empty());
  EXPECT_THROW(SharedMapping{path}, std::runtime_error);
  EXPECT_EQ(second.data()[4999], 7);  // whoever has mapped it keeps it
}

TEST(SharedMapping, RefusesWhatThereIsNoRoomFor) {
  EXPECT_THROW(SharedMapping("frugal-test", -1), std::runtime_error);
  EXPECT_THROW(SharedMapping(nullptr, std::numeric_limits<std::int64_t>::max()), std::runtime_error);
  EXPECT_THROW(SharedMapping("/dev/null"), std::runtime_error);
}

TEST(OtherProcess, HasEndedWhenItIsAZombie) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[1]);
    char byte;
    _exit(static_cast<int>(read(pipe_ends[0], &byte, 1)));
  }
  OtherProcess process, late;
  EXPECT_FALSE(process.has_ended(child));
  close(pipe_ends[1]);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);  // and leave the zombie
  EXPECT_TRUE(process.has_ended(child));
  EXPECT_TRUE(late.has_ended(child));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(process.has_ended(child));
  EXPECT_TRUE(OtherProcess().has_ended(child));
}

}  // namespace
}  // namespace frugal
