// Lines and fields of a text file, cut as Python's str.strip() and str.split(delimiter) cut them, as DGL-KE does.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace frugal {

// Number of newlines in `text`; counted in parallel.
std::int64_t count_newlines(std::string_view text);

// A run of whole lines of a block, and how many lines of the block come before it.
struct LineRange {
  std::string_view text;
  std::int64_t first_line = 0;
};

// Cuts a block of whole lines (each ends with a newline) into at most `parts` ranges of about equal size, in order.
std::vector<LineRange> split_lines(std::string_view block, int parts);

// `text` without the white space (Unicode's, encoded in UTF-8) at both ends.
std::string_view strip(std::string_view text);

struct Fields {
  std::array<std::string_view, 4> at;
  int count = 0;  // of all fields of the line; those past the fourth are counted, not kept
};

// The fields of a stripped line. `delimiter` is not empty; a line without it has one field.
Fields split(std::string_view line, std::string_view delimiter);

// Calls row(line, number) for each line of the range (without its newline) until one returns something other than
// nothing, and returns that.
template <class Row>
auto first_of_lines(const LineRange& range, const Row& row) -> decltype(row(std::string_view{}, std::int64_t{})) {
  std::string_view rest = range.text;
  for (std::int64_t number = range.first_line; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    if (auto found = row(rest.substr(0, end), number)) return found;
    rest.remove_prefix(end + 1);
  }
  return {};
}

}  // namespace frugal
