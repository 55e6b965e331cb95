#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/named.h"
#include "machines/machine_replica.h"
#include "machines/machine_rows.h"
#include "sampler/batch.h"
#include "step/announce.h"

namespace frugal::bindings::machines {
namespace {

using Block = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstBlock = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Batches = std::vector<std::shared_ptr<Batch>>;

MachineBlock block_named(const std::string& name) {
  return named<MachineBlock>({{"urgent", MachineBlock::kUrgent},
                              {"late", MachineBlock::kLate},
                              {"rest", MachineBlock::kRest},
                              {"ahead", MachineBlock::kAhead},
                              {"whole", MachineBlock::kWhole}},
                             name, "block");
}

// The block `name` from one machine to another, for which there are so many floats.
template <class Table>
MachineBlock block_of_size(const Table& table, const std::string& name, std::int64_t boundary, int from, int to,
                           std::size_t floats) {
  const MachineBlock block = block_named(name);
  require(static_cast<std::int64_t>(floats) == table.block_floats(block, boundary, from, to),
          "the block has another size");
  return block;
}

template <class Table>
void announce_all(Table& table, const Batches& batches, BatchRows (*rows_of)(const Batch&)) {
  require(!batches.empty(), "each machine has a batch");
  std::vector<BatchRows> announced;
  for (const auto& batch : batches) {
    require(batch->step == batches.front()->step, "the batches must be of one step");
    announced.push_back(rows_of(*batch));
  }
  std::vector<MachineUse> uses;
  for (const BatchRows& each : announced) uses.push_back({each.rows, each.occurrences});
  table.announce(batches.front()->step, uses);
}

// The common part of both kinds of tables.
template <class Class>
void bind_blocks(Class& bound) {
  using Table = typename Class::Type;
  bound
      .def(
          "block_floats",
          [](const Table& table, const std::string& block, std::int64_t boundary, int from, int to) {
            return table.block_floats(block_named(block), boundary, from, to);
          },
          "block"_a, "boundary"_a, "sender"_a, "receiver"_a,
          "Floats of this table in a block of one machine to another: urgent, late, rest, ahead or whole "
          "(machine_steps.h).")
      .def("has_late", &Table::has_late, "boundary"_a, "Whether any machine sends another something in late.")
      .def(
          "pack",
          [](const Table& table, const std::string& block, std::int64_t boundary, int from, int to,
             const Block& floats) {
            const MachineBlock which = block_of_size(table, block, boundary, from, to, floats.size());
            const nb::gil_scoped_release release;
            table.pack(which, boundary, to, floats.data());
          },
          "block"_a, "boundary"_a, "sender"_a, "receiver"_a, "floats"_a,
          "Fills what this machine, the sender, sends: floats (block_floats,) float32.")
      .def(
          "land",
          [](Table& table, const std::string& block, std::int64_t boundary, int from, int to,
             const ConstBlock& floats) {
            const MachineBlock which = block_of_size(table, block, boundary, from, to, floats.size());
            const nb::gil_scoped_release release;
            table.land(which, boundary, from, floats.data());
          },
          "block"_a, "boundary"_a, "sender"_a, "receiver"_a, "floats"_a,
          "Takes in what this machine, the receiver, got.")
      .def(
          "apply",
          [](Table& table, const std::string& block, std::int64_t boundary) {
            const nb::gil_scoped_release release;
            table.apply(block_named(block), boundary);
          },
          "block"_a, "boundary"_a, "When urgent, rest or whole has landed from all machines: applies what has come.")
      .def_prop_ro("steps_run", &Table::steps_run, "Steps that have ended.");
}

}  // namespace

void bind(nb::module_& module) {
  module.attr("MOST_MACHINES") = kMostMachines;
  nb::class_<MachineRows, StepRows> rows(module, "MachineRows",
                                         "Rows that each have an owner among several machines. See csrc/machines.");
  rows.def(
          "__init__",
          [](MachineRows* self, HostTable& own, const RowOwners& owners, int machine, float learning_rate,
             std::uint64_t seed, std::uint32_t table) {
            new (self) MachineRows(own, owners, machine, learning_rate, {seed, table, {}});
          },
          "own"_a, "owners"_a, "machine"_a, "learning_rate"_a, "seed"_a = 0, "table"_a = 0, nb::keep_alive<1, 2>(),
          "own: the rows that the machine owns. seed, table: by which rows in half precision are rounded.")
      .def(
          "announce_batches",
          [](MachineRows& self, const Batches& batches) { announce_all(self, batches, entities_of); },
          "batches"_a, nb::call_guard<nb::gil_scoped_release>(), "The batches of all machines of a coming step.");
  bind_blocks(rows);
  nb::class_<MachineReplica, StepRows> replica(module, "MachineReplica",
                                               "A table of which each machine has a replica. See csrc/machines.");
  replica
      .def(
          "__init__",
          [](MachineReplica* self, HostTable& table, std::int64_t most_rows, int entries, int machine, int machines,
             float learning_rate) {
            new (self)
                MachineReplica(table, {most_rows, table.layout().dim, entries}, machine, machines, learning_rate);
          },
          "replica"_a, "most_rows"_a, "entries"_a, "machine"_a, "machines"_a, "learning_rate"_a, nb::keep_alive<1, 2>(),
          "most_rows: of a step of one machine. entries: 1 for relations, 2 for projections.")
      .def(
          "announce_batches",
          [](MachineReplica& self, const Batches& batches, bool projections) {
            announce_all(self, batches, projections ? projections_of : relations_of);
          },
          "batches"_a, "projections"_a = false, nb::call_guard<nb::gil_scoped_release>(),
          "The batches of all machines of a coming step.");
  bind_blocks(replica);
}

}  // namespace frugal::bindings::machines
