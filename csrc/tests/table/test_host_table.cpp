#include "table/host_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace frugal {
namespace {

TEST(HostTable, RowsAreLinesApartAndStateFollowsTheEmbedding) {
  for (const int dim : {1, 31, 32, 127, 400, 1000}) {
    HostTable table(5, dim, Sharing::kPrivate);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(table.row(4)) % 128, 0u);
    EXPECT_GT(table.layout().stride, dim);
    EXPECT_EQ(&table.state(3), table.row(3) + dim);
    EXPECT_EQ(table.state(3), 0.0f);
  }
}

TEST(HostTable, ASharedTableIsOneTableWhereverItIsAttached) {
  HostTable table(100, 5, Sharing::kShared);
  HostTable attached(table.path(), 100, 5);
  table.row(99)[4] = 3.0f;
  attached.state(7) = 2.0f;
  EXPECT_EQ(attached.row(99)[4], 3.0f);
  EXPECT_EQ(table.state(7), 2.0f);
  EXPECT_EQ(HostTable(3, 5, Sharing::kPrivate).path(), "");
  EXPECT_THROW(HostTable(table.path(), 200, 5), std::runtime_error);
  EXPECT_THROW(HostTable("/proc/self/fd/100000", 100, 5), std::runtime_error);
}

TEST(HostTable, PartsHaveTheirRowsBehindEachOther) {
  for (const RowElement element : {RowElement::kFloat32, RowElement::kFloat16}) {
    HostTable first(20, 37, Sharing::kShared, 1, element, {0, 3});
    HostTable last(first.path(), 20, 37, 1, element, {2, 3});
    const std::int64_t stride = first.layout().stride;
    EXPECT_EQ(first.pitch(), 3 * stride);
    EXPECT_EQ(last.row(4) - last.all_parts(), (4 * 3 + 2) * stride);
    EXPECT_EQ(first.bytes(), HostTable(20, 37, Sharing::kPrivate, 1, element).bytes());
    HostTable alone(20, 37, Sharing::kPrivate, 1, element);
    last.init_uniform(-1.0f, 1.0f, 3, 0, {.whole_dim = 111, .ranges = {{74, 37}}});
    alone.init_uniform(-1.0f, 1.0f, 3, 0, {.whole_dim = 111, .ranges = {{74, 37}}});
    last.state(19) = 5.0f;
    std::vector<float> found(37), expected(37);
    for (std::int64_t id = 0; id < 20; ++id) {
      last.read(id, found.data());
      alone.read(id, expected.data());
      EXPECT_EQ(found, expected);
      first.read(id, found.data());
      EXPECT_EQ(found, std::vector<float>(37, 0.0f));
      EXPECT_EQ(first.state(id), 0.0f);
    }
    EXPECT_EQ(first.all_parts()[(19 * 3 + 2) * stride + last.layout().state_offset()], 5.0f);
  }
  EXPECT_THROW(HostTable(3, 4, Sharing::kPrivate, 1, RowElement::kFloat32, {3, 3}), std::invalid_argument);
  HostTable alone(9, 4, Sharing::kShared);
  EXPECT_THROW(HostTable(alone.path(), 9, 4, 1, RowElement::kFloat32, {0, 2}), std::runtime_error);  // it has no parts
}

TEST(HostTable, PartsOfOneProcessShareItsMapping) {
  auto first = std::make_unique<HostTable>(20, 37, Sharing::kShared, 1, RowElement::kFloat16, TablePart{0, 3});
  HostTable last(*first, 2);
  EXPECT_EQ(last.all_parts(), first->all_parts());
  EXPECT_EQ(last.path(), first->path());
  EXPECT_EQ(last.layout().state_offset(), first->layout().state_offset());
  last.state(19) = 5.0f;
  const std::string path = first->path();
  first.reset();  // the mapping and its file stay
  EXPECT_EQ(last.state(19), 5.0f);
  EXPECT_EQ(HostTable(path, 20, 37, 1, RowElement::kFloat16, {2, 3}).state(19), 5.0f);
  EXPECT_THROW(HostTable(last, 3), std::invalid_argument);
}

TEST(HostTable, RefusesNonsense) {
  EXPECT_THROW(HostTable(0, 4, Sharing::kPrivate), std::invalid_argument);
  EXPECT_THROW(HostTable(std::int64_t{1} << 46, 400, Sharing::kPrivate), std::runtime_error);
}

}  // namespace
}  // namespace frugal
