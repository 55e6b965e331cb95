#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "bindings/named.h"
#include "cache/cache_index.h"
#include "cache/policies.h"

namespace frugal::bindings::cache {
namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

ScorePolicy policy_named(const std::string& name) {
  return named<ScorePolicy>({{"lru", ScorePolicy::kLru},
                             {"lfu", ScorePolicy::kLfu},
                             {"epoch_lru", ScorePolicy::kEpochLru},
                             {"epoch_lfu", ScorePolicy::kEpochLfu},
                             {"customized", ScorePolicy::kCustomized}},
                            name, "score policy");
}

void check_lengths(std::size_t keys, std::size_t others) {
  if (keys != others) throw std::invalid_argument("one value per key is needed");
}

nb::object insert_and_evict(CacheIndex& index, const Vector<Key>& keys, const Vector<Score>& given) {
  check_lengths(keys.size(), given.size());
  const std::size_t count = keys.size();
  std::vector<Upsert> results(count);
  index.insert_and_evict(keys.data(), given.data(), static_cast<std::int64_t>(count), results.data());
  std::vector<Slot> slots(count);
  std::vector<std::uint8_t> found(count);
  std::vector<Key> evicted(count);
  std::vector<Score> evicted_scores(count);
  for (std::size_t i = 0; i < count; ++i) {
    slots[i] = results[i].slot;
    found[i] = results[i].found;
    evicted[i] = results[i].evicted;
    evicted_scores[i] = results[i].evicted_score;
  }
  return nb::make_tuple(to_numpy(std::move(slots)), to_numpy(std::move(found)), to_numpy(std::move(evicted)),
                        to_numpy(std::move(evicted_scores)));
}

nb::object entries_of(const CacheIndex& index) {
  const std::vector<CacheEntry> entries = index.entries();
  std::vector<Key> keys;
  std::vector<Slot> slots;
  std::vector<Score> scores;
  std::vector<std::int64_t> touched;
  for (const CacheEntry& entry : entries) {
    keys.push_back(entry.key);
    slots.push_back(entry.slot);
    scores.push_back(entry.score);
    touched.push_back(entry.touched);
  }
  return nb::make_tuple(to_numpy(std::move(keys)), to_numpy(std::move(slots)), to_numpy(std::move(scores)),
                        to_numpy(std::move(touched)));
}

void restore(CacheIndex& index, const Vector<Key>& keys, const Vector<Slot>& slots, const Vector<Score>& scores,
             const Vector<std::int64_t>& touched) {
  check_lengths(keys.size(), slots.size());
  check_lengths(keys.size(), scores.size());
  check_lengths(keys.size(), touched.size());
  std::vector<CacheEntry> entries(keys.size());
  for (std::size_t i = 0; i < entries.size(); ++i)
    entries[i] = {keys.data()[i], slots.data()[i], scores.data()[i], touched.data()[i]};
  index.restore(entries);
}

}  // namespace

void bind(nb::module_& module) {
  nb::class_<CacheIndex>(
      module, "CacheIndex",
      "Which key lies in which slot of a cache of fixed capacity. Slots are int32, -1 for none; keys "
      "int64, any but -1, which raises IndexError; scores uint64, the lowest of a set of at most 128 slots is evicted "
      "first.")
      .def(
          "__init__",
          [](CacheIndex* self, Slot capacity, const std::string& policy) {
            new (self) CacheIndex(capacity, policy_named(policy));
          },
          "capacity"_a, "policy"_a)
      .def_prop_ro("capacity", &CacheIndex::capacity)
      .def("__len__", &CacheIndex::size)
      .def_prop_ro("time", [](const CacheIndex& index) { return index.clock().time; })
      .def_prop_ro("epoch", [](const CacheIndex& index) { return index.clock().epoch; })
      .def("set_time", &CacheIndex::set_time, "time"_a,
           "Sets the time (the step) of the calls that follow. Keys touched at the current time are not evicted.")
      .def("set_epoch", &CacheIndex::set_epoch, "epoch"_a, "Sets the epoch of the epoch policies.")
      .def(
          "find",
          [](const CacheIndex& index, const Vector<Key>& keys) {
            std::vector<Slot> slots(keys.size());
            index.find(keys.data(), static_cast<std::int64_t>(keys.size()), slots.data());
            return to_numpy(std::move(slots));
          },
          "keys"_a, "Slots of `keys` (n,), -1 where a key is not cached. Changes nothing.")
      .def("insert_and_evict", &insert_and_evict, "keys"_a, "given"_a,
           "Touches or inserts `keys` (n,) in order; `given` (n,) is the count to add (lfu, epoch_lfu) or the score "
           "(customized). Returns slots (-1: rejected), found (uint8), evicted keys (-1: none) and their scores; an "
           "evicted key lay in the slot that its successor has now.")
      .def(
          "assign",
          [](CacheIndex& index, const Vector<Key>& keys, const Vector<Score>& given) {
            check_lengths(keys.size(), given.size());
            std::vector<Slot> slots(keys.size());
            for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = index.assign(keys.data()[i], given.data()[i]);
            return to_numpy(std::move(slots));
          },
          "keys"_a, "given"_a, "Touches those of `keys` that are cached, never inserts; returns the slots.")
      .def(
          "erase",
          [](CacheIndex& index, const Vector<Key>& keys) {
            std::vector<std::uint8_t> erased(keys.size());
            for (std::size_t i = 0; i < erased.size(); ++i) erased[i] = index.erase(keys.data()[i]);
            return to_numpy(std::move(erased));
          },
          "keys"_a, "Removes `keys`; returns which of them were there (uint8).")
      .def("entries", &entries_of, "Keys, slots, scores and times of the last touch, of the occupied slots.")
      .def("restore", &restore, "keys"_a, "slots"_a, "scores"_a, "touched"_a,
           "Replaces the contents by what entries gave. ValueError, and an empty index, if it does not fit.");
  module.def(
      "cache_policy",
      [](const std::string& name, std::int64_t rows, std::int64_t slots) {
        return make_cache_policy(name, rows, slots);
      },
      "name"_a, "rows"_a, "slots"_a, "The CachePolicy of that name for a cache of `slots` of a table's `rows`.");
  module.def("cache_policy_slot_bytes", &cache_policy_slot_bytes, "name"_a,
             "Bytes of host memory that the policy of that name takes for each slot.");
}

}  // namespace frugal::bindings::cache
