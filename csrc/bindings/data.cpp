#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdlib>

#include "bindings/bindings.h"
#include "data/lines.h"
#include "data/name_table.h"
#include "data/triples.h"

namespace frugal::bindings::data {
namespace {

template <class T>
using Column = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Text = Column<const std::uint8_t>;

std::string_view view(const Text& text) { return {reinterpret_cast<const char*>(text.data()), text.size()}; }

// An array that frees `data` with the C library.
template <class T>
nb::object adopt(T* data, std::size_t size) {
  nb::capsule owner(data ? data : std::malloc(1), [](void* memory) noexcept { std::free(memory); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {size}, owner));
}

// (kind, line, column, text) of a complaint, or None.
nb::object to_python(const std::optional<Complaint>& complaint) {
  if (!complaint) return nb::none();
  static constexpr const char* kKinds[] = {"columns",    "not_integer", "negative", "out_of_range", "unknown_name",
                                           "empty_name", "tab",         "quotes",   "weight",       "duplicate"};
  return nb::make_tuple(kKinds[static_cast<int>(complaint->kind)], complaint->line, complaint->column,
                        nb::bytes(complaint->text.data(), complaint->text.size()));
}

// The format of lines whose columns stand in `order`, e.g. "htr".
LineFormat line_format(const std::string& delimiter, const std::string& order, bool exact) {
  const auto column = [&](char letter) { return static_cast<int>(order.find(letter)); };
  if (delimiter.empty() || order.size() != 3 || column('h') < 0 || column('r') < 0 || column('t') < 0)
    throw nb::value_error("delimiter must not be empty, order must be a permutation of 'hrt'");
  return {delimiter, column('h'), column('r'), column('t'), exact};
}

template <class Id>
TripleColumns<Id> columns(const Text& block, const Column<Id>& head, const Column<Id>& relation, const Column<Id>& tail,
                          const std::optional<Column<float>>& weight) {
  const std::string_view text = view(block);
  const auto rows = static_cast<std::size_t>(count_newlines(text));
  if (!text.empty() && text.back() != '\n') throw nb::value_error("block must end with a newline");
  if (head.size() < rows || relation.size() < rows || tail.size() < rows || (weight && weight->size() < rows))
    throw nb::value_error("columns are shorter than the block has lines");
  return {head.data(), relation.data(), tail.data(), weight ? weight->data() : nullptr};
}

template <class Id>
nb::object parse_ids(const Text& block, const std::string& delimiter, const std::string& order, bool exact,
                     std::int64_t n_entities, std::int64_t n_relations, const Column<Id>& head,
                     const Column<Id>& relation, const Column<Id>& tail, const std::optional<Column<float>>& weight) {
  const LineFormat format = line_format(delimiter, order, exact);
  const auto out = columns<Id>(block, head, relation, tail, weight);
  std::optional<Complaint> complaint;
  {
    nb::gil_scoped_release release;
    complaint = parse_id_triples<Id>(view(block), format, n_entities, n_relations, out);
  }
  return to_python(complaint);
}

nb::object parse_names(const Text& block, const std::string& delimiter, const std::string& order, bool number_new,
                       NameTable& entities, NameTable& relations, const Column<std::int32_t>& head,
                       const Column<std::int32_t>& relation, const Column<std::int32_t>& tail,
                       const std::optional<Column<float>>& weight) {
  const LineFormat format = line_format(delimiter, order, false);
  const auto out = columns<std::int32_t>(block, head, relation, tail, weight);
  std::optional<Complaint> complaint;
  {
    nb::gil_scoped_release release;
    complaint = parse_name_triples(view(block), format, number_new, entities, relations, out);
  }
  return to_python(complaint);
}

}  // namespace

void bind(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<NameTable>(module, "NameTable", "Names numbered from 0 in the order in which they were added.")
      .def(nb::init<>())
      .def(
          "__init__",
          [](NameTable* self, const Text& bytes, const Column<const std::int64_t>& offsets) {
            if (offsets.size() == 0) throw nb::value_error("offsets has at least one element");
            new (self) NameTable(view(bytes), offsets.data(), static_cast<std::int64_t>(offsets.size()) - 1);
          },
          "bytes"_a, "offsets"_a, "The table that released these.")
      .def("__len__", &NameTable::size)
      .def(
          "find", [](const NameTable& self, nb::bytes name) { return self.find({name.c_str(), name.size()}); },
          "name"_a, "The id of a name (UTF-8 bytes), or -1.")
      .def(
          "add", [](NameTable& self, nb::bytes name) { return self.add({name.c_str(), name.size()}); }, "name"_a,
          "The id of a name (UTF-8 bytes), a new one if the name is new.")
      .def(
          "release",
          [](NameTable& self) {
            NameTable::Packed packed = self.release();
            const auto names = static_cast<std::size_t>(packed.names);
            const auto bytes = static_cast<std::size_t>(packed.offsets[names]);
            return nb::make_tuple(adopt(reinterpret_cast<std::uint8_t*>(packed.bytes), bytes),
                                  adopt(packed.offsets, names + 1));
          },
          "All names one after the other, uint8, and where each begins, with the end, int64 (len + 1,). The table "
          "is empty afterwards.");

  module.def("count_newlines", [](const Text& block) { return count_newlines(view(block)); }, "block"_a,
             nb::call_guard<nb::gil_scoped_release>(), "Number of newlines in a uint8 array.");
  constexpr const char* kParse =
      "Parse a block of whole lines (uint8, ends with a newline) into columns with at least as many elements.\n\n"
      "Returns None, or (kind, line from 0 within the block, column from 0, text) of the first bad line.";
  module.def("parse_id_triples", &parse_ids<std::int32_t>, "block"_a, "delimiter"_a, "order"_a, "exact"_a,
             "n_entities"_a, "n_relations"_a, "head"_a.noconvert(), "relation"_a.noconvert(), "tail"_a.noconvert(),
             "weight"_a.noconvert().none(), kParse);
  module.def("parse_id_triples", &parse_ids<std::int64_t>, "block"_a, "delimiter"_a, "order"_a, "exact"_a,
             "n_entities"_a, "n_relations"_a, "head"_a.noconvert(), "relation"_a.noconvert(), "tail"_a.noconvert(),
             "weight"_a.noconvert().none(), kParse);
  module.def("parse_name_triples", &parse_names, "block"_a, "delimiter"_a, "order"_a, "number_new"_a, "entities"_a,
             "relations"_a, "head"_a.noconvert(), "relation"_a.noconvert(), "tail"_a.noconvert(),
             "weight"_a.noconvert().none(), kParse);
  module.def("parse_name_map", [](const Text& block, const std::string& delimiter, bool name_first, bool exact,
                                  NameTable& names, const Column<std::int64_t>& ids) {
               if (delimiter.empty() || static_cast<std::int64_t>(ids.size()) < count_newlines(view(block)))
                 throw nb::value_error("delimiter is empty or ids is shorter than the block has lines");
               return to_python(parse_name_map(view(block), delimiter, name_first, exact, names, ids.data()));
             }, "block"_a, "delimiter"_a, "name_first"_a, "exact"_a, "names"_a, "ids"_a.noconvert(), kParse);
}

}  // namespace frugal::bindings::data
