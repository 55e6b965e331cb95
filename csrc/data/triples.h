// Triples from text: blocks of whole lines in, columns of ids out. The caller reads the file, allocates the columns and
// words the errors; here is only the parsing, in parallel over the lines of a block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/name_table.h"

namespace frugal {

// The fault of the first bad line of a block.
struct Complaint {
  enum class Kind {
    kColumns,      // `column` columns were found
    kNotInteger,   // a field that should be an id
    kNegative,     // an id below 0
    kOutOfRange,   // an id that is not below the number of entities or relations
    kUnknownName,  // a name that the map file lacks
    kEmptyName,
    kTabInName,    // a name that a map file, whose columns are separated by tabs, could not hold
    kQuotes,       // a field that the delimiter ends between quotation marks
    kWeight,       // an edge importance that is no finite number above 0
    kDuplicate,    // a name that an earlier line of the map file has
  };
  Kind kind;
  std::int64_t line;  // from 0, within the block
  int column = 0;     // from 0, the field at fault
  std::string text;   // that field, or the whole line, cut to a readable length
};

// How a line is laid out. Fields past those needed are ignored as DGL-KE does, unless `exact`.
struct LineFormat {
  std::string_view delimiter;
  int head = 0, relation = 1, tail = 2;  // columns, a permutation of 0, 1, 2
  bool exact = false;
};

// Where the triples go: line i of the block is element i. `weight` (column 3 of the file) may be null.
template <class Id>
struct TripleColumns {
  Id* head;
  Id* relation;
  Id* tail;
  float* weight;
};

// Lines of integer ids. Id is int32_t or int64_t and holds n_entities - 1 and n_relations - 1.
template <class Id>
std::optional<Complaint> parse_id_triples(std::string_view block, const LineFormat& format, std::int64_t n_entities,
                                          std::int64_t n_relations, const TripleColumns<Id>& out);

// Lines of names. With `number_new`, unknown names get the next id in the order of the file (head before tail), else
// they are complained about.
std::optional<Complaint> parse_name_triples(std::string_view block, const LineFormat& format, bool number_new,
                                            NameTable& entities, NameTable& relations,
                                            const TripleColumns<std::int32_t>& out);

// Lines of a map file, `id delimiter name` (or the other way round with `name_first`): adds the names in the order of
// the lines and writes the id that line i states to ids[i]. Lines have exactly two fields. White space at both ends of
// a line is no part of it, unless `exact`; a carriage return before the newline never is.
std::optional<Complaint> parse_name_map(std::string_view block, std::string_view delimiter, bool name_first,
                                        bool exact, NameTable& names, std::int64_t* ids);

}  // namespace frugal
