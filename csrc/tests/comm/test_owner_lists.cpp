// Ranks as threads tell each other their rows, and notice one that goes away or goes on alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/owner_lists.h"
#include "tests/at_once.h"

namespace frugal::owner_lists {
namespace {

constexpr std::int64_t kMaxRows = 20, kTable = 60, kSteps = 200;

struct Segment {
  explicit Segment(int ranks, std::int64_t steps)
      : size(OwnerLists::bytes_needed(ranks, steps, kMaxRows)),
        data(new (std::align_val_t{128}) std::byte[size]()) {}
  ~Segment() { operator delete[](data, std::align_val_t{128}); }
  std::size_t size;
  std::byte* data;
};

// By owner; often of none.
std::vector<std::int64_t> rows_of(int rank, int ranks, std::int64_t step) {
  std::mt19937 random(static_cast<unsigned>(1000 * step + rank));
  std::vector<std::int64_t> rows;
  for (int owner = 0; owner < ranks; ++owner)
    for (std::int64_t row = owner; row < kTable; row += ranks)
      if (random() % 4 == 0 && rows.size() < kMaxRows) rows.push_back(row);
  return rows;
}

TEST(OwnerLists, TellEachOwnerItsRowsOfAllRanksInTheirOrder) {
  for (const int ranks : {1, 2, 3, 5}) {
    const Segment segment(ranks, 6);
    at_once(ranks, [&](int rank) {
      OwnerLists lists(segment.data, segment.size, rank, ranks, 6, kMaxRows);
      std::mt19937 random(static_cast<unsigned>(rank));
      std::int64_t posted = 0;
      std::vector<std::int64_t> found;
      for (std::int64_t step = 0; step < kSteps; ++step) {
        const auto ahead = std::min(kSteps, step + 1 + static_cast<std::int64_t>(random() % 5));
        for (; posted < ahead; ++posted) lists.post(rows_of(rank, ranks, posted));
        const OwnedRows owned = lists.take(found);
        lists.begin();
        std::vector<std::int64_t> wanted;
        for (int from = 0; from < ranks; ++from) {
          EXPECT_EQ(owned.begin[from], std::ssize(wanted));
          const std::vector<std::int64_t> rows = rows_of(from, ranks, step);
          for (const std::int64_t row : rows)
            if (row % ranks == rank) wanted.push_back(row);
          EXPECT_EQ(owned.place[from], std::ranges::count_if(rows, [&](auto row) { return row % ranks < rank; }));
        }
        EXPECT_EQ(owned.begin[ranks], std::ssize(wanted));
        EXPECT_EQ(found, wanted);
        if (step % 50 == 49) lists.meet();
      }
      lists.meet();
    });
  }
}

std::string sentence_of(const auto& call) {
  try {
    call();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(OwnerLists, ARankThatGoesOnAloneIsNoticed) {
  const Segment segment(2, 4);
  OwnerLists one(segment.data, segment.size, 0, 2, 4, kMaxRows), other(segment.data, segment.size, 1, 2, 4, kMaxRows);
  other.begin();
  const std::string sentence = sentence_of([&] { one.meet(); });
  EXPECT_NE(sentence.find("rank 1 goes on with step 0"), std::string::npos) << sentence;
  EXPECT_EQ(sentence_of([&] { other.begin(); }), sentence);
  EXPECT_EQ(sentence_of([&] { other.ready(); }), sentence);
}

TEST(OwnerLists, ARankThatHasLeftIsNoticed) {
  const Segment segment(2, 4);
  std::vector<std::int64_t> rows;
  OwnerLists one(segment.data, segment.size, 0, 2, 4, kMaxRows);
  OwnerLists(segment.data, segment.size, 1, 2, 4, kMaxRows);
  one.post(rows);
  EXPECT_EQ(sentence_of([&] { one.take(rows); }), "Rank 1 has left, and other ranks wait for it.");
}

TEST(OwnerLists, HandlesOfAllRanksReachEach) {
  const Segment segment(3, 4);
  at_once(3, [&](int rank) {
    OwnerLists lists(segment.data, segment.size, rank, 3, 4, kMaxRows);
    EXPECT_THROW(lists.introduce(std::string(OwnerLists::kMostHandleBytes + 1, 'x')), std::invalid_argument);
    std::string handle(static_cast<std::size_t>(rank + 1), 'a');
    handle[0] = '\0';  // any bytes
    lists.introduce(handle);
    const std::vector<std::string> found = lists.handles();
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[static_cast<std::size_t>(rank)], handle);
    EXPECT_EQ(found[2].size(), 3U);
    lists.meet();
  });
}

TEST(OwnerLists, WhoLooksHearsOfARankThatHasLeft) {
  const Segment segment(2, 4);
  OwnerLists one(segment.data, segment.size, 0, 2, 4, kMaxRows);
  one.look();
  OwnerLists(segment.data, segment.size, 1, 2, 4, kMaxRows);
  one.look();  // which tells, and the next look hears
  EXPECT_EQ(*one.failed(), 2U);
  EXPECT_EQ(sentence_of([&] { one.look(); }), "Rank 1 has left, and other ranks wait for it.");
}

TEST(OwnerLists, RefuseMoreRowsThanThereIsRoomFor) {
  const Segment segment(1, 4);
  OwnerLists lists(segment.data, segment.size, 0, 1, 4, kMaxRows);
  EXPECT_THROW(lists.post(std::vector<std::int64_t>(kMaxRows + 1)), std::invalid_argument);
  EXPECT_THROW(OwnerLists(segment.data, segment.size - 1, 0, 1, 4, kMaxRows), std::invalid_argument);
  EXPECT_THROW(OwnerLists(segment.data, segment.size, 1, 1, 4, kMaxRows), std::invalid_argument);
}

}  // namespace
}  // namespace frugal::owner_lists
