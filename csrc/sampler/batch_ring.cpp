#include "sampler/batch_ring.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

namespace frugal {
namespace {

constexpr std::uint64_t kMagic = 0x465255474C425231;  // changes with the layout
constexpr std::int64_t kPage = 4096, kLine = 64;
constexpr int kArrays = 17, kSpins = 400;
constexpr std::int64_t kLookMicroseconds = 100'000;  // how often a waiting rank looks after the others
constexpr std::int32_t kLeft = -1;
constexpr std::int64_t kLeastCells = 8;

template <class T>
constexpr std::int64_t padded(std::int64_t count) {
  return (count * static_cast<std::int64_t>(sizeof(T)) + kLine - 1) / kLine * kLine;
}

std::int64_t bytes_of(const BatchLimits& most) {
  Batch batch;
  std::int64_t bytes = 0;
  // Longest lengths, in the order of the arrays.
  const std::array<std::int64_t, kArrays> length = {
      most.positives, most.positives, most.positives, most.negatives, most.weighted ? most.positives : 0,
      most.entities, most.positives, most.positives, most.negatives,
      most.relations, most.positives,
      most.entities + 1, 2 * most.positives, most.entities + 1, most.negatives,
      most.relations + 1, most.positives};
  std::size_t i = 0;
  Batch::for_each_array(batch, [&](auto& array) {
    bytes += padded<typename std::decay_t<decltype(array)>::value_type>(length[i++]);
  });
  return bytes;
}

}  // namespace

// The numbers of one batch, or why there is none; its arrays follow.
struct alignas(128) BatchRing::Cell {
  enum Content : std::uint32_t { kBatch, kOutOfRange, kError };

  std::atomic<std::uint64_t> published;  // step + 1; 0: none yet. Everything below belongs to the writer until then,
  std::atomic<std::uint64_t> unread;     // and to the ranks whose bits are left here afterwards
  Content content;
  char error[300];
  std::int64_t chunk_size, negatives_per_chunk;
  bool corrupt_head;
  std::array<std::int64_t, kArrays> size;

  char* data() { return reinterpret_cast<char*>(this + 1); }
};

struct BatchRing::Header {
  std::uint64_t magic;
  std::int64_t bytes, cells, cell_bytes, data_bytes;
  std::int32_t ranks;
  Event published, room;
  std::atomic<std::int32_t> pid[kMaxRanks];  // 0: has not come; kLeft
};

BatchRing::BatchRing(int ranks, const BatchLimits& limits) {
  if (ranks < 1 || ranks > kMaxRanks)
    throw std::invalid_argument("between 1 and " + std::to_string(kMaxRanks) + " ranks can share batches");
  const std::int64_t data_bytes = bytes_of(limits);
  const std::int64_t cell_bytes = (static_cast<std::int64_t>(sizeof(Cell)) + data_bytes + 127) / 128 * 128;
  const std::int64_t cells = ranks * std::max<std::int64_t>(2, (kLeastCells + ranks - 1) / ranks);
  const std::int64_t bytes = kPage + cells * cell_bytes;
  static_assert(sizeof(Header) <= kPage);
  memory_ = SharedMapping("frugal-batches", bytes);
  Header& h = header();  // fresh pages are zero: counters and events start there
  h.bytes = bytes;
  h.cells = cells;
  h.cell_bytes = cell_bytes;
  h.data_bytes = data_bytes;
  h.ranks = ranks;
  h.magic = kMagic;
  processes_ = std::vector<OtherProcess>(static_cast<std::size_t>(ranks));
}

BatchRing::BatchRing(const std::string& path) : memory_(path) {
  if (memory_.bytes() < kPage || header().magic != kMagic || header().bytes != memory_.bytes())
    throw std::runtime_error("there is no ring of batches of this version at " + path);
  processes_ = std::vector<OtherProcess>(static_cast<std::size_t>(ranks()));
}

int BatchRing::ranks() const { return header().ranks; }
std::int64_t BatchRing::cells() const { return header().cells; }

BatchRing::Cell& BatchRing::cell(std::int64_t step) const {
  return *reinterpret_cast<Cell*>(memory_.data() + kPage + step % header().cells * header().cell_bytes);
}

void BatchRing::enter(int rank) {
  if (rank < 0 || rank >= ranks())
    throw std::invalid_argument("rank " + std::to_string(rank) + " is none of " + std::to_string(ranks()));
  header().pid[rank].store(getpid(), std::memory_order_release);
  wake();
}

void BatchRing::leave(int rank) {
  header().pid[rank].store(kLeft, std::memory_order_release);
  wake();
}

void BatchRing::wake() {
  header().published.notify();
  header().room.notify();
}

// The cell had this rank's step one turn before, which another of its threads may still be writing.
bool BatchRing::has_room(std::int64_t step, std::int64_t first_step) const {
  const Cell& to = cell(step);
  const std::int64_t before = step - cells();
  const std::uint64_t expected = before < first_step ? 0 : static_cast<std::uint64_t>(before) + 1;
  return to.published.load(std::memory_order_acquire) == expected && to.unread.load(std::memory_order_acquire) == 0;
}

void BatchRing::publish(std::int64_t step) {
  Cell& to = cell(step);
  to.unread.store(ranks() == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << ranks()) - 1, std::memory_order_relaxed);
  to.published.store(static_cast<std::uint64_t>(step) + 1, std::memory_order_release);
  header().published.notify();
}

bool BatchRing::try_write(std::int64_t step, std::int64_t first_step, const Batch& batch) {
  if (!has_room(step, first_step)) return false;
  Cell& to = cell(step);
  to.content = Cell::kBatch;
  to.chunk_size = batch.chunk_size;
  to.negatives_per_chunk = batch.negatives_per_chunk;
  to.corrupt_head = batch.corrupt_head;
  char* data = to.data();
  std::size_t i = 0;
  std::int64_t bytes = 0;
  Batch::for_each_array(batch, [&](const auto& array) {
    using T = typename std::decay_t<decltype(array)>::value_type;
    const std::int64_t length = padded<T>(to.size[i++] = static_cast<std::int64_t>(array.size()));
    bytes += length;
    if (bytes > header().data_bytes) throw std::logic_error("a batch is larger than the ring's cells");
    if (!array.empty()) std::memcpy(data, array.data(), array.size() * sizeof(T));
    data += length;
  });
  publish(step);
  return true;
}

bool BatchRing::try_write_error(std::int64_t step, std::int64_t first_step, const std::exception& error) {
  if (!has_room(step, first_step)) return false;
  Cell& to = cell(step);
  to.content = dynamic_cast<const std::out_of_range*>(&error) ? Cell::kOutOfRange : Cell::kError;
  const std::size_t length = std::min(std::strlen(error.what()), sizeof(to.error) - 1);
  std::memcpy(to.error, error.what(), length);
  to.error[length] = 0;
  publish(step);
  return true;
}

bool BatchRing::try_read(int rank, std::int64_t step, Batch& batch) {
  Cell& from = cell(step);
  const std::uint64_t bit = std::uint64_t{1} << rank, published = from.published.load(std::memory_order_acquire);
  if (published > static_cast<std::uint64_t>(step) + 1 ||
      (published == static_cast<std::uint64_t>(step) + 1 && !(from.unread.load(std::memory_order_relaxed) & bit)))
    throw std::logic_error("a rank reads step " + std::to_string(step) + " twice, or from another first step on");
  if (published != static_cast<std::uint64_t>(step) + 1) return false;
  const Cell::Content content = from.content;
  std::string error;
  if (content == Cell::kBatch) {
    batch.step = step;
    batch.chunk_size = from.chunk_size;
    batch.negatives_per_chunk = from.negatives_per_chunk;
    batch.corrupt_head = from.corrupt_head;
    const char* data = from.data();
    std::size_t i = 0;
    Batch::for_each_array(batch, [&](auto& array) {
      using T = typename std::decay_t<decltype(array)>::value_type;
      const std::int64_t size = from.size[i++];
      const T* const values = reinterpret_cast<const T*>(data);
      array.assign(values, values + size);
      data += padded<T>(size);
    });
  } else {
    error = from.error;
  }
  if (from.unread.fetch_and(~bit, std::memory_order_acq_rel) == bit) header().room.notify();
  if (content == Cell::kOutOfRange) throw std::out_of_range(error);
  if (content == Cell::kError) throw std::runtime_error(error);
  return true;
}

template <class Try>
bool BatchRing::wait(Event& event, std::int64_t step, const std::atomic<bool>& stopping, Try attempt) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (stopping.load(std::memory_order_acquire)) return false;
    if (attempt()) return true;
    spin_pause();
  }
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (auto looked = start;;) {
    const std::uint32_t ticket = event.ticket();
    if (stopping.load(std::memory_order_acquire)) return false;
    if (attempt()) return true;
    const auto now = Clock::now();
    if (now - looked >= std::chrono::microseconds(kLookMicroseconds)) {
      check_ranks(step, std::chrono::duration<double>(now - start).count());
      looked = now;
    }
    event.wait(ticket, kLookMicroseconds);
  }
}

bool BatchRing::write(std::int64_t step, std::int64_t first_step, const Batch& batch,
                      const std::atomic<bool>& stopping) {
  return wait(header().room, step, stopping, [&] { return try_write(step, first_step, batch); });
}

bool BatchRing::write_error(std::int64_t step, std::int64_t first_step, const std::exception& error,
                            const std::atomic<bool>& stopping) {
  return wait(header().room, step, stopping, [&] { return try_write_error(step, first_step, error); });
}

bool BatchRing::read(int rank, std::int64_t step, Batch& batch, const std::atomic<bool>& stopping) {
  return wait(header().published, step, stopping, [&] { return try_read(rank, step, batch); });
}

// Of a step that somebody waits for. A rank that has left has read, and written, all that it ever will.
void BatchRing::check_ranks(std::int64_t step, double waited) {
  Header& h = header();
  if (waited > attach_seconds && h.pid[maker(step)].load(std::memory_order_acquire) == 0)
    throw RankLost("Rank " + std::to_string(maker(step)) + " has not come, and other ranks wait for its batches.");
  Cell& wanted = cell(step);
  for (int r = 0; r < ranks(); ++r) {
    const std::int32_t pid = h.pid[r].load(std::memory_order_acquire);
    if (pid == 0) continue;
    const std::string name = "Rank " + std::to_string(r);
    if (pid == kLeft) {
      // Read after pid: what the rank did before it left is seen.
      const std::uint64_t published = wanted.published.load(std::memory_order_acquire);
      const bool there = published > static_cast<std::uint64_t>(step);
      const bool blocks = !there && published != 0 && (wanted.unread.load(std::memory_order_acquire) >> r & 1);
      if ((r == maker(step) && !there) || blocks)
        throw RankLost(name + " left before step " + std::to_string(step) + ", which other ranks wait for.");
    } else if (pid != getpid() && has_ended(r, pid)) {
      if (h.pid[r].load(std::memory_order_acquire) != kLeft)
        throw RankLost(name + " (process " + std::to_string(pid) + ") has ended.");
    }
  }
}

bool BatchRing::has_ended(int rank, std::int32_t pid) {
  const std::lock_guard lock(mutex_);
  return processes_[static_cast<std::size_t>(rank)].has_ended(pid);
}

}  // namespace frugal
