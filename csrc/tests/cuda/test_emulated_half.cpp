// Rows in half precision: the kernels of a device, run on a CPU, against those of the CPU.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "busy_rows.h"
#include "rows/cpu/plan_kernels.h"
#include "rows/cuda/plan_kernels.h"
#include "rows/cuda/row_updates.h"
#include "table/half_rows.h"
#include "table/mean_square.h"

namespace frugal::emulated_half {
namespace {

constexpr std::int64_t kRows = 16, kTable = 40;

struct HalfTable {
  RowLayout layout;
  std::vector<float> records;

  HalfTable(std::int64_t dim, std::mt19937& random)
      : layout(RowLayout::for_dim(dim, 1, RowElement::kFloat16)), records(kTable * layout.stride) {
    std::vector<float> values(dim);
    for (std::int64_t row = 0; row < kTable; ++row) {
      for (float& value : values) value = static_cast<float>(random() % 2001) / 5003.0f - 0.2f;
      round_embedding_to_nearest(layout, values.data(), &records[row * layout.stride]);
      records[row * layout.stride + layout.state_offset()] = static_cast<float>(row % 3);
    }
  }
  RowMemory memory() { return {layout.dim, layout.stride, records.data(), nullptr, nullptr, 1, layout.element}; }
};

std::vector<std::int64_t> some_rows() {
  std::vector<std::int64_t> rows(kRows);
  for (std::int64_t u = 0; u < kRows; ++u) rows[u] = 2 * u + 3;
  return rows;
}

TEST(EmulatedHalf, AreGatheredInFloats) {
  std::mt19937 random(1);
  for (const std::int64_t dim : {1, 2, 7, 8, 33, 64, 127, 400, 401}) {
    HalfTable table(dim, random);
    std::vector<float> cache(table.records.rbegin(), table.records.rend());
    RowMemory memory = table.memory();
    memory.cache = table.records.data() + 20 * memory.stride;
    const auto rows = some_rows();
    std::vector<std::int32_t> source(kRows, kFromHost);
    for (std::int64_t u = 0; u < kRows; u += 3) source[u] = static_cast<std::int32_t>(u % 7);
    std::vector<float> found(kRows * memory.record_stride(), -1), wanted = found;
    RowReads reads{rows.data(), source.data(), kRows};
    cpu::gather(memory, reads, wanted.data());
    for (const ReadPart part : {ReadPart::kHost, ReadPart::kCache}) {
      reads.part = part;
      cuda::gather(memory, reads, found.data(), {});
    }
    ASSERT_EQ(std::memcmp(found.data(), wanted.data(), found.size() * sizeof(float)), 0) << dim;
    const float* const first = table.records.data() + (rows[1] * memory.stride);
    std::vector<float> one(dim + 1);
    expand_record(table.layout, first, one.data());
    EXPECT_EQ(std::memcmp(one.data(), &wanted[memory.record_stride()], one.size() * sizeof(float)), 0) << dim;
  }
}

TEST(EmulatedHalf, AreUpdatedInFloatsAndRoundedAsOnTheCpu) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  // Whole rows, neighbours from some column on, and some of each half of a row.
  const std::pair<std::int64_t, WholeColumns> kinds[] = {{1, {}},
                                                         {7, {}},
                                                         {127, {}},
                                                         {256, {}},
                                                         {400, {}},
                                                         {600, {}},
                                                         {1, {401}},
                                                         {127, {50}},
                                                         {200, {200}},
                                                         {256, {128}},
                                                         {400, {256 + 31}},
                                                         {133, {133}},
                                                         {1001, {77}},
                                                         {2, {3, 1, 11}},
                                                         {100, {100, 50, 300}},
                                                         {400, {57, 200, 1003}},
                                                         {401, {13, 130, 250}},
                                                         {1200, {64, 600, 3000}}};
  for (const auto& [dim, columns] : kinds) {
    HalfTable device(dim, random), host = device;
    const auto rows = some_rows();
    const std::vector<std::int32_t> source(kRows, kFromHost);
    RowMemory memory = device.memory();
    std::vector<float> records(kRows * memory.record_stride());
    cpu::gather(memory, {rows.data(), source.data(), kRows}, records.data());
    // Rows of none, a few and many occurrences in two entries.
    std::vector<std::int32_t> offset{0};
    const std::int32_t used = kRows - 2;  // the others only pad, and have none
    for (std::int64_t u = 0; u < kRows; ++u)
      offset.push_back(offset.back() + (u >= used ? 0 : u % 5 == 0 ? 9 : static_cast<int>(u % 4)));
    std::vector<float> values(offset.back() * dim), squares(offset.back());
    for (float& value : values) value = normal(random);
    // Some of no usual size, in the last columns, before which others may have been stored; large ones have an
    // infinite square.
    for (std::int64_t i = 0; i < offset.back(); i += 3) values[(i + 1) * dim - 1] *= i % 2 == 0 ? 1e-25f : 1e25f;
    for (std::int32_t i = 0; i < offset.back(); ++i) squares[i] = mean_square(&values[i * dim], dim);
    const EntryGradients entry{values.data(), dim, offset.data(), nullptr, squares.data()};
    StepGradients gradients{{entry, entry}, 2};
    const std::vector<std::int32_t> busy = busy_rows(gradients, kRows);
    gradients.busy = busy.data();
    // Some leave as gradients, for which both have room.
    std::vector<RowDestination> leave(kRows, RowDestination::kHostRow);
    std::vector<std::int64_t> target = rows;
    for (const std::int64_t u : {2, 5}) {
      leave[u] = RowDestination::kGradient;
      target[u] = offset[u] * 2 * memory.record_stride();
    }
    std::vector<float> sent(offset.back() * 2 * memory.record_stride()), sent_by_host = sent;
    memory.staging = sent.data();
    RowMemory host_memory = host.memory();
    host_memory.staging = sent_by_host.data();
    const std::int64_t step = 123;
    const RowWrites writes{leave.data(), target.data(), kRows, &used};
    const std::vector<RowDestination> plain_leave(kRows, RowDestination::kHostRow);
    const RowWrites plain_writes{plain_leave.data(), rows.data(), kRows, &used};
    const RowRounding rounding{{9, 1, columns}, &step, rows.data()};

    // With a table of floats, in the same launch.
    std::vector<float> plain(kTable * RowLayout::for_dim(dim).stride), plain_before;
    for (float& value : plain) value = normal(random) * normal(random);
    for (std::int64_t row = 0; row < kTable; ++row) plain[row * RowLayout::for_dim(dim).stride + dim] = 1.0f;
    std::vector<float> plain_records(kRows * RowLayout::for_dim(dim).stride);
    RowMemory floats{dim, RowLayout::for_dim(dim).stride, plain.data()};
    cpu::gather(floats, {rows.data(), source.data(), kRows}, plain_records.data());
    std::vector<float> plain_wanted = plain;
    RowMemory floats_wanted = floats;
    floats_wanted.host_rows = plain_wanted.data();

    const TableUpdate updates[] = {{memory, writes, records.data(), gradients, rounding},
                                   {floats, plain_writes, plain_records.data(), gradients}};
    cuda::update(updates, 0.01f, {});
    cpu::update(host_memory, writes, records.data(), gradients, 0.01f, rounding);
    cpu::update(floats_wanted, plain_writes, plain_records.data(), gradients, 0.01f);
    ASSERT_EQ(std::memcmp(device.records.data(), host.records.data(), host.records.size() * sizeof(float)), 0) << dim;
    ASSERT_EQ(std::memcmp(sent.data(), sent_by_host.data(), sent.size() * sizeof(float)), 0) << dim;
    for (const std::int64_t u : {2, 5})
      ASSERT_EQ(sent[target[u] + dim - 1], values[(offset[u] + 1) * dim - 1]);
    ASSERT_EQ(std::memcmp(plain.data(), plain_wanted.data(), plain.size() * sizeof(float)), 0) << dim;
  }
}

}  // namespace
}  // namespace frugal::emulated_half
