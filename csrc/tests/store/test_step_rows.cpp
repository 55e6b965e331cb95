// That rows of a cache are those of the table: tests/cache/test_cached_store.py.
#include "store/step_rows.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "store/direct_rows.h"
#include "table/host_table.h"

namespace frugal {
namespace {

TEST(StepRows, KnowsOnlyAnnouncedRows) {
  HostTable table(10, 4, Sharing::kPrivate);
  DirectRows rows(table);
  const std::vector<std::int64_t> known{2, 5}, unknown{3};
  rows.announce(0, known, {});
  rows.begin(0);
  EXPECT_EQ(find_records(rows, rows.source(), known.data(), 2)[1], table.row(5));
  EXPECT_THROW(find_records(rows, rows.source(), unknown.data(), 1), std::out_of_range);
  rows.end();
  EXPECT_THROW(rows.announce(2, known, {}), std::logic_error);
  EXPECT_THROW(rows.begin(1), std::logic_error);
  const std::vector<std::int64_t> outside{10};
  EXPECT_THROW(rows.announce(1, outside, {}), std::out_of_range);
}

}  // namespace
}  // namespace frugal
