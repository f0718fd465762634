#include "mutate.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace leeway::fuzz {
namespace {

constexpr size_t kBytesMax = size_t{1} << 20;
constexpr size_t kChangesMax = 6;

constexpr std::string_view kNumbers[] = {"0",
                                         "-1",
                                         "1",
                                         "2147483647",
                                         "2147483648",
                                         "4294967296",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "-9223372036854775808",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "1000000000000000",
                                         "1e308",
                                         "1e999",
                                         "1e-320",
                                         "-0.0",
                                         "0.5",
                                         "nan",
                                         "NaN",
                                         "inf",
                                         "-inf",
                                         ""};
constexpr std::string_view kValues[] = {"null", "true",       "[]",       "{}",    "\"\"", "[[]]",
                                        "0",    "[1, \"a\"]", "{\"\":0}", "\"x\"", "1.5",  "-7"};
constexpr std::string_view kBadText[] = {
    "\xff\xfe",     "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x80\xae",
    "\xef\xbb\xbf", "\r",   "\x1b[31m",     "\\ud800"};
// An opening, and what may close it.
constexpr std::string_view kNests[][2] = {{"[", "]"},       {"{\"a\":", "}"}, {"a.", ""},
                                          {"a.", ""},       {"{a=", "}"},     {"\"a\".", ""},
                                          {"((a+)+", ")*"}, {"(", ")"}};
constexpr uint64_t kWords[] = {0,
                               1,
                               0x7f,
                               0xff,
                               0xffff,
                               0x7fffffff,
                               0x80000000,
                               0xffffffff,
                               uint64_t{1} << 40,
                               uint64_t{1} << 62,
                               ~uint64_t{0} >> 1,
                               uint64_t{1} << 63,
                               ~uint64_t{0}};

struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

// Often near the start, where binary files have their header.
size_t some_place(const std::string& text, Random& random) {
  constexpr size_t kHead = 2048;
  return random.below((random.chance(2) ? std::min(text.size(), kHead) : text.size()) + 1);
}

Range some_range(const std::string& text, Random& random, size_t most) {
  const size_t begin = some_place(text, random);
  return {begin, begin + random.below(std::min(most, text.size() - begin) + 1)};
}

// A run of characters of one class around a random place; empty if there is none near it.
template <class Belongs>
Range some_run(const std::string& text, Random& random, const Belongs& belongs) {
  size_t begin = some_place(text, random);
  while (begin < text.size() && !belongs(text[begin])) ++begin;
  while (begin > 0 && begin < text.size() && belongs(text[begin - 1])) --begin;
  size_t end = begin;
  while (end < text.size() && belongs(text[end])) ++end;
  return {begin, end};
}

bool of_number(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
}
bool of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool of_line(char c) { return c != '\n'; }
bool of_value(char c) { return c != ',' && c != ':' && c != '=' && c != '\n' && c != '}'; }

void replace(std::string& text, const Range& range, std::string_view by) {
  text.replace(range.begin, range.size(), by);
}

std::string nested(Random& random) {
  const auto& nest = random.one_of(kNests);
  constexpr size_t kDepths[] = {3, 60, 1000, 8000, 100'000};
  const size_t depth = random.one_of(kDepths);
  const bool closed = !random.chance(4);
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += nest[0];
  text += random.one_of(kValues);
  for (size_t i = 0; closed && i < depth; ++i) text += nest[1];
  return text;
}

// Lengths, counts and offsets in binary files.
void set_word(std::string& text, Random& random) {
  constexpr size_t kWidths[] = {1, 2, 4, 8};
  const size_t width = random.one_of(kWidths);
  if (text.size() < width) return;
  const size_t places = std::min<size_t>(text.size() / width, random.chance(2) ? 16 : ~size_t{0});
  const uint64_t word = random.chance(4) ? text.size() - random.below(20) : random.one_of(kWords);
  std::memcpy(text.data() + random.below(places) * width, &word, width);
}

void change_bytes(std::string& text, Random& random) {
  const Range range = some_range(text, random, 200);
  const std::string copy = text.substr(range.begin, range.size());
  switch (random.below(6)) {
    case 0:
      if (range.begin < text.size()) text[range.begin] ^= static_cast<char>(1 << random.below(8));
      break;
    case 1:
      if (range.begin < text.size()) text[range.begin] = static_cast<char>(random.bits());
      break;
    case 2:
      text.resize(some_place(text, random));
      break;
    case 3:
      replace(text, range, "");
      break;
    case 4:
      text.insert(random.below(text.size() + 1), copy);
      break;
    default:
      set_word(text, random);
  }
}

void change_text(std::string& text, const std::string& other, Random& random) {
  const Range number = some_run(text, random, of_number);
  const Range word = some_run(text, random, of_word);
  switch (random.below(8)) {
    case 0:
    case 1:
      return replace(text, number, random.one_of(kNumbers));
    case 2:
      return replace(text, some_run(text, random, of_value), random.one_of(kValues));
    case 3: {  // Words of the same language: keys and choices in the wrong places.
      const Range from = some_run(other, random, of_word);
      return replace(text, word, other.substr(from.begin, from.size()));
    }
    case 4: {
      const std::string bad(random.one_of(kBadText));
      return replace(text, random.chance(2) ? word : Range{word.end, word.end}, bad);
    }
    case 5: {
      constexpr size_t kLengths[] = {300, 5000, 100'000};
      const char letter = random.chance(3) ? '9' : 'a';
      return replace(text, word, std::string(random.one_of(kLengths), letter));
    }
    case 6:
      return replace(text, random.chance(2) ? some_run(text, random, of_value) : word,
                     nested(random));
    default:
      return replace(text, word, "");
  }
}

void change_lines(std::string& text, const std::string& other, Random& random) {
  const Range line = some_run(text, random, of_line);
  const std::string copy = text.substr(line.begin, line.size()) + "\n";
  const Range from = some_run(other, random, of_line);
  const std::string foreign = other.substr(from.begin, from.size()) + "\n";
  switch (random.below(4)) {
    case 0:
      return replace(text, line, "");
    case 1: {
      constexpr size_t kTimes[] = {1, 2, 300};
      const size_t times = std::min(random.one_of(kTimes), kBytesMax / copy.size());
      std::string copies;
      for (size_t i = 0; i < times; ++i) copies += copy;
      text.insert(line.begin, copies);
      return;
    }
    case 2:
      replace(text, line, "");
      text.insert(some_run(text, random, of_line).begin, copy);
      return;
    default:
      text.insert(line.begin, foreign);
  }
}

}  // namespace

std::string mutated(const std::vector<std::string>& seeds, Random random) {
  std::string text = random.one_of(seeds);
  const std::string& other = random.one_of(seeds);
  // Often a single one: after several, a parser seldom gets past the first.
  const size_t changes = random.chance(2) ? 1 : 2 + random.below(kChangesMax - 1);
  for (size_t i = 0; i < changes; ++i) {
    switch (random.below(8)) {
      case 0:
      case 1:
        change_bytes(text, random);
        break;
      case 2:
        change_lines(text, other, random);
        break;
      case 3: {  // splice: the start of one, the end of another
        const Range tail = some_range(other, random, other.size());
        text = text.substr(0, tail.begin) + other.substr(tail.begin);
        break;
      }
      default:
        change_text(text, other, random);
    }
    if (text.size() > kBytesMax) text.resize(kBytesMax);
  }
  return text;
}

}  // namespace leeway::fuzz
