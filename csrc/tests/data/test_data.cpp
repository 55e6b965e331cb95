// Names and triples from text, with more threads than cores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/parallel/thread_pool.h"
#include "data/lines.h"
#include "data/name_table.h"
#include "data/triples.h"

namespace frugal {
namespace {

class Threads : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_num_threads(GetParam()); }
  void TearDown() override { set_num_threads(1); }
};
INSTANTIATE_TEST_SUITE_P(Data, Threads, testing::Values(1, 2, 7));

struct Columns {
  explicit Columns(std::size_t rows) : head(rows), relation(rows), tail(rows) {}
  TripleColumns<std::int32_t> out() { return {head.data(), relation.data(), tail.data(), nullptr}; }
  std::vector<std::int32_t> head, relation, tail;
};

std::string numbered(const char* word, int number) { return std::string(word).append(std::to_string(number)); }

TEST(NameTable, NumbersNamesAsTheyCome) {
  NameTable table;
  std::vector<std::string> names;
  for (int i = 0; i < 20000; ++i) names.push_back(numbered("name", i * 7919 % 20000));
  for (int i = 0; i < 20000; ++i) ASSERT_EQ(table.add(names[i]), i);
  for (int i = 0; i < 20000; ++i) ASSERT_EQ(table.add(names[i]), i);
  const std::vector<std::string_view> views(names.rbegin(), names.rend());
  std::vector<std::int32_t> ids(views.size());
  table.find(views, ids.data());
  for (int i = 0; i < 20000; ++i) ASSERT_EQ(ids[i], 19999 - i);
  EXPECT_EQ(table.find("absent"), -1);
  EXPECT_EQ(table.name(3), names[3]);

  const NameTable::Packed packed = table.release();
  EXPECT_EQ(packed.names, 20000);
  EXPECT_EQ(table.size(), 0);
  EXPECT_EQ(table.add("again"), 0);
  const std::string_view bytes(packed.bytes, static_cast<std::size_t>(packed.offsets[packed.names]));
  const NameTable again(bytes, packed.offsets, packed.names);
  for (int i = 0; i < 20000; ++i) ASSERT_EQ(again.find(names[i]), i);
  std::free(packed.bytes);
  std::free(packed.offsets);
}

TEST(NameTable, RefusesOffsetsThatAreNone) {
  const std::int64_t descending[] = {0, 3, 1, 4}, short_of[] = {0, 1, 2, 3}, twice[] = {0, 1, 2, 4};
  EXPECT_THROW(NameTable("abcd", descending, 3), std::invalid_argument);
  EXPECT_THROW(NameTable("abcd", short_of, 3), std::invalid_argument);
  EXPECT_THROW(NameTable("aabb", twice, 3), std::invalid_argument);
}

TEST_P(Threads, TheFirstBadLineIsNamed) {
  for (int bad : {0, 1, 500, 998, 999}) {
    std::string block;
    for (int i = 0; i < 1000; ++i) block += i >= bad && i % 2 == bad % 2 ? "1\t5\t1\n" : "1\t2\t3\n";
    Columns columns(1000);
    const auto complaint = parse_id_triples(block, LineFormat{"\t"}, 4, 4, columns.out());
    ASSERT_TRUE(complaint);
    EXPECT_EQ(complaint->line, bad);
    EXPECT_EQ(complaint->column, 1);
    EXPECT_EQ(complaint->kind, Complaint::Kind::kOutOfRange);
    EXPECT_EQ(complaint->text, "5");
  }
}

TEST(Lines, RangesCoverTheBlockAndKnowTheirLines) {
  const std::string block = "a\n\nbbbbbbbbbbbbbbbbbbb\nc\nd\n";
  for (int parts = 1; parts < 9; ++parts) {
    std::string joined;
    for (const LineRange& range : split_lines(block, parts)) {
      EXPECT_EQ(range.first_line, count_newlines(joined));
      EXPECT_EQ(range.text.back(), '\n');
      joined += range.text;
    }
    EXPECT_EQ(joined, block);
  }
}

TEST(Lines, StripsWhatPythonStrips) {
  EXPECT_EQ(strip(" \t\r\n\x1c\xC2\xA0x y\xE3\x80\x80\v\f "), "x y");
  EXPECT_EQ(strip(" \xE2\x80\x83 "), "");
  EXPECT_EQ(strip("\xE2\x80\x8B"), "\xE2\x80\x8B") << "the zero-width space is none";
}

}  // namespace
}  // namespace frugal
