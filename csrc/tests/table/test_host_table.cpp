#include "table/host_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/parallel/thread_pool.h"
#include "rows/cpu/entry_update.h"
#include "table/row_ids.h"

namespace frugal {
namespace {

std::vector<float> dense(HostTable& table) {
  std::vector<float> values;
  for (std::int64_t id = 0; id < table.rows(); ++id)
    values.insert(values.end(), table.row(id), table.row(id) + table.layout().dim + 1);
  return values;
}

TEST(HostTable, RowsAreLinesApartAndStateFollowsTheEmbedding) {
  for (const int dim : {1, 31, 32, 127, 400, 1000}) {
    HostTable table(5, dim, Sharing::kPrivate);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(table.row(4)) % 128, 0u);
    EXPECT_GT(table.layout().stride, dim);
    EXPECT_EQ(&table.state(3), table.row(3) + dim);
    EXPECT_EQ(table.state(3), 0.0f);
  }
}

TEST(HostTable, InitialValuesDoNotDependOnThreads) {
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    HostTable table(1000, 50, Sharing::kShared);
    table.init_uniform(-0.5f, 0.5f, 11, 0);
    results.push_back(dense(table));
  }
  EXPECT_EQ(results[0], results[1]);
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

TEST(EntryUpdate, DoesNotDependOnThreadsAndWrongIdsFindNoRecords) {
  const std::int64_t dim = 33, count = 700;  // enough elements for several threads
  std::vector<std::int64_t> ids(count);
  std::vector<float> gradients(count * dim);
  for (std::int64_t i = 0; i < count; ++i) ids[i] = i * i % 97;
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<float>((i * 37) % 101) - 50.0f;
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    HostTable table(97, dim, Sharing::kPrivate);
    table.init_uniform(-1, 1, 1, 1);
    apply_entry(RowAdagrad{0.1f}, records_of(table, ids.data(), count).data(), count, dim, gradients.data());
    results.push_back(dense(table));
    auto wrong = ids;
    wrong.back() = 97;
    EXPECT_THROW(records_of(table, wrong.data(), count), std::out_of_range);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace frugal
