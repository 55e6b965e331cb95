#include "data/triples.h"

#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/parallel/thread_pool.h"
#include "data/lines.h"

namespace frugal {
namespace {

using Kind = Complaint::Kind;
using MaybeComplaint = std::optional<Complaint>;

MaybeComplaint complain(Kind kind, std::int64_t line, int column, std::string_view text) {
  constexpr std::size_t kReadable = 200;
  return Complaint{kind, line, column, std::string(text.substr(0, kReadable))};
}

// Runs body(i) for each range in parallel; of several complaints the one about the earliest line counts.
template <class Body>
MaybeComplaint for_each_range(const std::vector<LineRange>& ranges, const Body& body) {
  std::vector<MaybeComplaint> complaints(ranges.size());
  default_pool()->parallel_for(static_cast<std::int64_t>(ranges.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) complaints[i] = body(static_cast<std::size_t>(i));
  });
  for (MaybeComplaint& complaint : complaints)
    if (complaint) return std::move(complaint);
  return {};
}

// Digits at `at`, which moves past them; false if there are none or too many for 64 bits.
bool read_digits(const char*& at, const char* end, std::int64_t& value) {
  const char* begin = at;
  value = 0;
  for (; at != end && static_cast<unsigned char>(*at - '0') < 10; ++at) value = value * 10 + (*at - '0');
  return at != begin && at - begin <= 18;
}

// A whole field as Python's int() reads it, but for underscores and digits outside ASCII.
std::optional<Kind> read_integer(std::string_view field, std::int64_t& value) {
  field = strip(field);
  const bool negative = !field.empty() && field.front() == '-';
  if (!field.empty() && (negative || field.front() == '+')) field.remove_prefix(1);
  if (field.empty() || field.find_first_not_of("0123456789") != std::string_view::npos) return Kind::kNotInteger;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (negative && !(error == std::errc{} && value == 0)) return Kind::kNegative;
  if (error != std::errc{}) return Kind::kOutOfRange;
  return {};
}

bool has_tab(std::string_view name) { return name.find('\t') != std::string_view::npos; }

// Whether quotation marks are open at the end of `text`. One behind a backslash is text.
bool leaves_quotes_open(std::string_view text) {
  bool open = false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) open = !open;
  return open;
}

// Whether a field of a line begins with a quotation mark that only a later field closes, as in CSV and N-Triples, where
// a delimiter between quotation marks separates nothing.
bool is_cut_in_quotes(std::string_view field, std::string_view line) {
  field = strip(field);
  if (field.empty() || field.front() != '"' || !leaves_quotes_open(field)) return false;
  return leaves_quotes_open(line.substr(static_cast<std::size_t>(field.data() + field.size() - line.data())));
}

bool read_weight(std::string_view field, float& weight) {
  field = strip(field);
  if (!field.empty() && field.front() == '+') field.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  weight = static_cast<float>(value);
  return error == std::errc{} && end == field.data() + field.size() && std::isfinite(weight) && weight > 0;
}

// The fields of a line, if there are as many as there must be.
MaybeComplaint split_triple(std::string_view line, std::int64_t number, const LineFormat& format, bool weighted,
                            Fields& fields) {
  line = strip(line);
  fields = split(line, format.delimiter);
  const int needed = weighted ? 4 : 3;
  if (line.empty()) fields.count = 0;
  if (fields.count < needed || (format.exact && fields.count > needed))
    return complain(Kind::kColumns, number, fields.count, line);
  return {};
}

// Nearly every line of a clean file is this: plain digits and one-byte delimiters, nothing after the last field needed.
// False leaves the line to parse_id_line, which knows all the rest.
template <class Id>
bool parse_plain_id_line(std::string_view line, std::int64_t number, const LineFormat& format, std::int64_t n_entities,
                         std::int64_t n_relations, const TripleColumns<Id>& out) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const char* at = line.data();
  const char* const end = at + line.size();
  const char delimiter = format.delimiter.front();
  std::int64_t value[3];
  if (!read_digits(at, end, value[0]) || at == end || *at++ != delimiter) return false;
  if (!read_digits(at, end, value[1]) || at == end || *at++ != delimiter) return false;
  if (!read_digits(at, end, value[2])) return false;
  if (out.weight) {
    if (at == end || *at++ != delimiter) return false;
    if (!read_weight({at, static_cast<std::size_t>(end - at)}, out.weight[number])) return false;
  } else if (at != end) {
    return false;
  }
  const std::int64_t head = value[format.head], relation = value[format.relation], tail = value[format.tail];
  if (head >= n_entities || tail >= n_entities || relation >= n_relations) return false;
  out.head[number] = static_cast<Id>(head);
  out.relation[number] = static_cast<Id>(relation);
  out.tail[number] = static_cast<Id>(tail);
  return true;
}

template <class Id>
MaybeComplaint parse_id_line(std::string_view line, std::int64_t number, const LineFormat& format,
                             std::int64_t n_entities, std::int64_t n_relations, const TripleColumns<Id>& out) {
  Fields fields;
  if (auto complaint = split_triple(line, number, format, out.weight != nullptr, fields)) return complaint;
  const auto read = [&](int column, std::int64_t bound, Id& id) -> MaybeComplaint {
    std::int64_t value = 0;
    auto fault = read_integer(fields.at[column], value);
    if (!fault && value >= bound) fault = Kind::kOutOfRange;
    if (fault) return complain(*fault, number, column, fields.at[column]);
    id = static_cast<Id>(value);
    return {};
  };
  if (auto complaint = read(format.head, n_entities, out.head[number])) return complaint;
  if (auto complaint = read(format.relation, n_relations, out.relation[number])) return complaint;
  if (auto complaint = read(format.tail, n_entities, out.tail[number])) return complaint;
  if (out.weight && !read_weight(fields.at[3], out.weight[number]))
    return complain(Kind::kWeight, number, 3, fields.at[3]);
  return {};
}

// Lines whose names are looked up together.
struct NamedRows {
  std::vector<std::int64_t> lines;
  std::vector<std::string_view> entities;   // head and tail of each line, one after the other
  std::vector<std::string_view> relations;
  std::vector<std::int32_t> entity_ids, relation_ids;

  void push(std::int64_t line, std::string_view head, std::string_view relation, std::string_view tail) {
    lines.push_back(line);
    entities.insert(entities.end(), {head, tail});
    relations.push_back(relation);
  }
  template <class Entities, class Relations>
  void resolve(const Entities& entities_to_ids, const Relations& relations_to_ids) {
    entity_ids.resize(entities.size());
    relation_ids.resize(relations.size());
    entities_to_ids(entities, entity_ids.data());
    relations_to_ids(relations, relation_ids.data());
  }
  void write(std::size_t i, const TripleColumns<std::int32_t>& out) const {
    out.head[lines[i]] = entity_ids[2 * i];
    out.tail[lines[i]] = entity_ids[2 * i + 1];
    out.relation[lines[i]] = relation_ids[i];
  }
  bool known(std::size_t i) const {
    return entity_ids[2 * i] >= 0 && entity_ids[2 * i + 1] >= 0 && relation_ids[i] >= 0;
  }
  void clear() {
    lines.clear();
    entities.clear();
    relations.clear();
  }
};

// Looks up the names of one range. Lines with new names go to `unknown` if they may be numbered.
MaybeComplaint look_up_range(const LineRange& range, const LineFormat& format, bool number_new,
                             const NameTable& entities, const NameTable& relations,
                             const TripleColumns<std::int32_t>& out, NamedRows& unknown) {
  NamedRows rows;
  const auto look_up = [&]() -> MaybeComplaint {
    rows.resolve([&](const auto& names, std::int32_t* ids) { entities.find(names, ids); },
                 [&](const auto& names, std::int32_t* ids) { relations.find(names, ids); });
    for (std::size_t i = 0; i < rows.lines.size(); ++i) {
      const std::string_view head = rows.entities[2 * i], relation = rows.relations[i], tail = rows.entities[2 * i + 1];
      if (rows.known(i)) {
        rows.write(i, out);
      } else if (number_new) {
        unknown.push(rows.lines[i], head, relation, tail);
      } else if (rows.entity_ids[2 * i] < 0) {
        return complain(Kind::kUnknownName, rows.lines[i], format.head, head);
      } else if (rows.relation_ids[i] < 0) {
        return complain(Kind::kUnknownName, rows.lines[i], format.relation, relation);
      } else {
        return complain(Kind::kUnknownName, rows.lines[i], format.tail, tail);
      }
    }
    rows.clear();
    return {};
  };
  constexpr std::size_t kRows = 64;
  const bool may_have_tabs = format.delimiter != "\t";
  auto complaint = first_of_lines(range, [&](std::string_view line, std::int64_t number) -> MaybeComplaint {
    Fields fields;
    auto fault = split_triple(line, number, format, out.weight != nullptr, fields);
    for (int column : {format.head, format.relation, format.tail})
      if (!fault && fields.at[column].empty()) fault = complain(Kind::kEmptyName, number, column, line);
    if (!fault && number_new && may_have_tabs)
      for (int column : {format.head, format.relation, format.tail})
        if (!fault && has_tab(fields.at[column]))
          fault = complain(Kind::kTabInName, number, column, fields.at[column]);
    if (!fault && fields.count > 3 && may_have_tabs)
      for (int column : {0, 1, 2})
        if (!fault && is_cut_in_quotes(fields.at[column], line))
          fault = complain(Kind::kQuotes, number, column, fields.at[column]);
    if (!fault && out.weight && !read_weight(fields.at[3], out.weight[number]))
      fault = complain(Kind::kWeight, number, 3, fields.at[3]);
    if (fault) {
      auto earlier = look_up();
      return earlier ? earlier : fault;
    }
    rows.push(number, fields.at[format.head], fields.at[format.relation], fields.at[format.tail]);
    return rows.lines.size() == kRows ? look_up() : MaybeComplaint{};
  });
  return complaint ? complaint : look_up();
}

}  // namespace

template <class Id>
MaybeComplaint parse_id_triples(std::string_view block, const LineFormat& format, std::int64_t n_entities,
                                std::int64_t n_relations, const TripleColumns<Id>& out) {
  const bool plain = format.delimiter.size() == 1;
  const std::vector<LineRange> ranges = split_lines(block, default_pool()->threads());
  return for_each_range(ranges, [&](std::size_t i) {
    return first_of_lines(ranges[i], [&](std::string_view line, std::int64_t number) -> MaybeComplaint {
      if (plain && parse_plain_id_line(line, number, format, n_entities, n_relations, out)) return {};
      return parse_id_line(line, number, format, n_entities, n_relations, out);
    });
  });
}

template MaybeComplaint parse_id_triples(std::string_view, const LineFormat&, std::int64_t, std::int64_t,
                                         const TripleColumns<std::int32_t>&);
template MaybeComplaint parse_id_triples(std::string_view, const LineFormat&, std::int64_t, std::int64_t,
                                         const TripleColumns<std::int64_t>&);

MaybeComplaint parse_name_triples(std::string_view block, const LineFormat& format, bool number_new,
                                  NameTable& entities, NameTable& relations, const TripleColumns<std::int32_t>& out) {
  const std::vector<LineRange> ranges = split_lines(block, default_pool()->threads());
  std::vector<NamedRows> unknown(ranges.size());

  // Look up in parallel; the tables do not change meanwhile.
  auto complaint = for_each_range(ranges, [&](std::size_t i) {
    return look_up_range(ranges[i], format, number_new, entities, relations, out, unknown[i]);
  });
  if (complaint) return complaint;

  // Number the new names in the order of the file, which is what gives an id its value.
  for (NamedRows& rows : unknown) {
    rows.resolve([&](const auto& names, std::int32_t* ids) { entities.add(names, ids); },
                 [&](const auto& names, std::int32_t* ids) { relations.add(names, ids); });
    for (std::size_t i = 0; i < rows.lines.size(); ++i) rows.write(i, out);
  }
  return {};
}

MaybeComplaint parse_name_map(std::string_view block, std::string_view delimiter, bool name_first, bool exact,
                              NameTable& names, std::int64_t* ids) {
  return first_of_lines({block}, [&](std::string_view line, std::int64_t number) -> MaybeComplaint {
    if (!exact || strip(line).empty()) line = strip(line);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const Fields fields = split(line, delimiter);
    if (fields.count != 2) return complain(Kind::kColumns, number, line.empty() ? 0 : fields.count, line);
    const std::string_view id = fields.at[name_first ? 1 : 0], name = fields.at[name_first ? 0 : 1];
    if (auto fault = read_integer(id, ids[number])) return complain(*fault, number, name_first ? 1 : 0, id);
    if (name.empty()) return complain(Kind::kEmptyName, number, name_first ? 0 : 1, line);
    if (has_tab(name)) return complain(Kind::kTabInName, number, name_first ? 0 : 1, name);
    const std::int64_t before = names.size();
    if (names.add(name) < before) return complain(Kind::kDuplicate, number, name_first ? 0 : 1, name);
    return {};
  });
}

}  // namespace frugal
