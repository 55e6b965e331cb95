#include "data/lines.h"

#include <algorithm>
#include <atomic>

#include "base/parallel/thread_pool.h"

namespace frugal {
namespace {

constexpr std::string_view kAsciiSpace = " \t\n\r\v\f\x1c\x1d\x1e\x1f";

// The white space beyond ASCII that str.strip() removes.
constexpr std::array<std::string_view, 19> kWideSpace = {
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82", "\xE2\x80\x83",
    "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A",
    "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

std::size_t leading_space(std::string_view text) {
  if (is_ascii(text.front())) return kAsciiSpace.find(text.front()) != std::string_view::npos;
  for (std::string_view space : kWideSpace)
    if (text.substr(0, space.size()) == space) return space.size();
  return 0;
}

std::size_t trailing_space(std::string_view text) {
  if (is_ascii(text.back())) return kAsciiSpace.find(text.back()) != std::string_view::npos;
  for (std::string_view space : kWideSpace)
    if (text.size() >= space.size() && text.substr(text.size() - space.size()) == space) return space.size();
  return 0;
}

}  // namespace

std::int64_t count_newlines(std::string_view text) {
  std::atomic<std::int64_t> total{0};
  const auto size = static_cast<std::int64_t>(text.size());
  default_pool()->parallel_for(size, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
    total += std::count(text.data() + begin, text.data() + end, '\n');
  });
  return total;
}

std::vector<LineRange> split_lines(std::string_view block, int parts) {
  std::vector<LineRange> ranges;
  const std::size_t target = block.size() / static_cast<std::size_t>(parts) + 1;
  while (!block.empty()) {
    const std::size_t end = target < block.size() ? block.find('\n', target - 1) + 1 : block.size();
    ranges.push_back({block.substr(0, end)});
    block.remove_prefix(end);
  }
  std::vector<std::int64_t> lines(ranges.size());
  default_pool()->parallel_for(static_cast<std::int64_t>(ranges.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      lines[i] = std::count(ranges[i].text.begin(), ranges[i].text.end(), '\n');
  });
  for (std::size_t i = 1; i < ranges.size(); ++i) ranges[i].first_line = ranges[i - 1].first_line + lines[i - 1];
  return ranges;
}

std::string_view strip(std::string_view text) {
  while (!text.empty()) {
    const std::size_t space = leading_space(text);
    if (space == 0) break;
    text.remove_prefix(space);
  }
  while (!text.empty()) {
    const std::size_t space = trailing_space(text);
    if (space == 0) break;
    text.remove_suffix(space);
  }
  return text;
}

Fields split(std::string_view line, std::string_view delimiter) {
  Fields fields;
  for (;;) {
    const std::size_t end = delimiter.size() == 1 ? line.find(delimiter.front()) : line.find(delimiter);
    if (fields.count < 4) fields.at[fields.count] = line.substr(0, end);
    ++fields.count;
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + delimiter.size());
  }
}

}  // namespace frugal
