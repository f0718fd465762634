#include "kernels/ternary_packing.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/wire_blocks.h"
#include "kernels/wire_loops.h"

namespace leeway {
namespace {

constexpr int64_t kGroupBlocks = 32;
constexpr int64_t kGroupNumbers = kGroupBlocks * kTernaryBlock;
constexpr int64_t kScaleBytes = 4;
constexpr int64_t kPackedScale = 2;  // its upper bytes: the others are zeros (wire_loops.h)
constexpr int64_t kHeaderBytes = 3;
constexpr int kDigits = 5;    // in a byte of codes
constexpr int kBytes = 243;   // that five digits can make
constexpr int kClasses = 6;   // of bytes: by how many of their digits are zeros, most first
constexpr uint8_t kZero = 1;  // the digit
constexpr uint32_t kTotalBits = 15;
constexpr uint32_t kTotal = 1U << kTotalBits;
constexpr uint32_t kLowest = 1U << 16U;  // of the coder's state between two bytes
constexpr int kLevels = 256;
constexpr int kLevelMin = 64;  // with fewer zeros there is nothing to gain

// Which bytes have how many zeros.
struct Bytes {
  std::array<uint8_t, kBytes> class_of = {};
  std::array<uint8_t, kBytes> rank = {};     // in its class
  std::array<uint8_t, kBytes> ordered = {};  // by class and rank
  std::array<uint8_t, kClasses + 1> first = {};
};

constexpr Bytes make_bytes() {
  Bytes bytes;
  int placed = 0;
  for (int which = 0; which < kClasses; ++which) {
    const auto at = static_cast<size_t>(which);
    bytes.first[at] = static_cast<uint8_t>(placed);
    for (int byte = 0; byte < kBytes; ++byte) {
      int zeros = 0;
      for (int rest = byte, digit = 0; digit < kDigits; ++digit, rest /= 3) {
        zeros += rest % 3 == kZero ? 1 : 0;
      }
      if (kDigits - zeros != which) continue;
      bytes.class_of[static_cast<size_t>(byte)] = static_cast<uint8_t>(which);
      bytes.rank[static_cast<size_t>(byte)] = static_cast<uint8_t>(placed - bytes.first[at]);
      bytes.ordered[static_cast<size_t>(placed++)] = static_cast<uint8_t>(byte);
    }
  }
  bytes.first[kClasses] = static_cast<uint8_t>(placed);
  return bytes;
}
constexpr Bytes kOf = make_bytes();
static_assert(kOf.first[kClasses] == kBytes);

// How often bytes come, in parts of kTotal: all of a class equally often.
struct Model {
  std::array<uint32_t, kClasses> each = {};
  std::array<uint32_t, kClasses + 1> begin = {};
};

constexpr Model make_model(int level) {
  Model model;
  uint32_t rest = kTotal;
  for (int which = kClasses - 1; which > 0; --which) {
    uint64_t chance = 1;  // in parts of 512^5: a zero has 2 level, a plus or minus 256 - level
    for (int digit = 0; digit < kDigits; ++digit) {
      chance *= static_cast<uint64_t>(digit < which ? kLevels - level : 2 * level);
    }
    const auto at = static_cast<size_t>(which);
    const auto each = static_cast<uint32_t>(chance >> (9 * kDigits - kTotalBits));
    model.each[at] = std::max<uint32_t>(each, 1);
    rest -= model.each[at] * static_cast<uint32_t>(kOf.first[at + 1] - kOf.first[at]);
  }
  model.each[0] = rest;  // the byte of five zeros
  for (size_t at = 0; at < kClasses; ++at) {
    const auto bytes = static_cast<uint32_t>(kOf.first[at + 1] - kOf.first[at]);
    model.begin[at + 1] = model.begin[at] + bytes * model.each[at];
  }
  return model;
}

constexpr bool are_models_sound() {
  for (int level = kLevelMin; level < kLevels; ++level) {
    const Model model = make_model(level);
    if (model.each[0] == 0 || model.each[0] >= kTotal) return false;
    if (model.begin[kClasses] != kTotal) return false;
  }
  return true;
}
static_assert(are_models_sound(), "every byte has a chance, and all together are certain");

void write_word(uint32_t word, uint8_t* to) {
  to[0] = static_cast<uint8_t>(word);
  to[1] = static_cast<uint8_t>(word >> 8U);
}
uint32_t read_word(const uint8_t* from) {
  return static_cast<uint32_t>(from[0]) | static_cast<uint32_t>(from[1]) << 8U;
}

// The numbers of a group, and where its blocks begin.
struct Group {
  int64_t numbers = 0;
  int64_t blocks = 0;
  int64_t bytes = 0;  // of its blocks
  int64_t codes = 0;  // of these, codes
  int64_t first_byte = 0;
};

Group group_at(int64_t group, int64_t count) {
  Group found;
  found.numbers = std::min(kGroupNumbers, count - group * kGroupNumbers);
  found.blocks = (found.numbers + kTernaryBlock - 1) / kTernaryBlock;
  found.bytes = blocks_bytes(WireFormat::kTernary, found.numbers);
  found.codes = found.bytes - kScaleBytes * found.blocks;
  found.first_byte = blocks_bytes(WireFormat::kTernary, group * kGroupNumbers);
  return found;
}

int64_t group_count(int64_t count) { return (count + kGroupNumbers - 1) / kGroupNumbers; }

// Calls body(first byte, codes) for each block of a group, whose codes follow its scale.
template <class Body>
void for_group_blocks(const Group& group, const Body& body) {
  constexpr int64_t kBlockBytes = kScaleBytes + ternary_codes(kTernaryBlock);
  for (int64_t block = 0; block < group.blocks; ++block) {
    const int64_t byte = block * kBlockBytes;
    body(byte, std::min(ternary_codes(kTernaryBlock), group.bytes - byte - kScaleBytes));
  }
}

int level_of(const Group& group, const uint8_t* blocks) {
  int64_t others = 0;  // digits that are not zero
  for_group_blocks(group, [&](int64_t byte, int64_t codes) {
    for (int64_t k = 0; k < codes; ++k) others += kOf.class_of[blocks[byte + kScaleBytes + k]];
  });
  const int64_t digits = kDigits * group.codes;
  const int64_t level = (kLevels * (digits - others) + digits / 2) / digits;
  return static_cast<int>(std::min<int64_t>(level, kLevels - 1));
}

// The range coder, from the last byte to the first: `words` end where the reader begins.
class Writer {
 public:
  Writer(const Model& model, std::vector<uint8_t>& words) : model_(model), words_(words) {}

  void write(uint8_t byte) {
    const size_t which = kOf.class_of[byte];
    const uint32_t each = model_.each[which];
    if (state_ >= each << (32 - kTotalBits)) emit();
    const uint32_t begin = model_.begin[which] + kOf.rank[byte] * each;
    state_ = (state_ / each << kTotalBits) + state_ % each + begin;
  }
  void end() {
    emit();
    emit();
  }

 private:
  void emit() {
    words_.push_back(static_cast<uint8_t>(state_ >> 8U));  // backwards, like the words
    words_.push_back(static_cast<uint8_t>(state_));
    state_ >>= 16U;
  }

  const Model& model_;
  std::vector<uint8_t>& words_;
  uint32_t state_ = kLowest;
};

class Reader {
 public:
  Reader(const Model& model, std::span<const uint8_t> words) : model_(model), words_(words) {
    for (size_t which = 0; which < kClasses; ++which) {
      const uint64_t each = model.each[which];
      inverse_[which] = ((uint64_t{1} << 32U) + each - 1) / each;
    }
    state_ = next_word() << 16U;
    state_ |= next_word();
  }

  uint8_t read() {
    const uint32_t place = state_ & (kTotal - 1);
    size_t which = 0;
    for (size_t next = 1; next < kClasses; ++next) which += place >= model_.begin[next] ? 1 : 0;
    const uint32_t each = model_.each[which];
    const uint32_t within = place - model_.begin[which];
    const auto rank = static_cast<uint32_t>(within * inverse_[which] >> 32U);
    state_ = each * (state_ >> kTotalBits) + within - rank * each;
    if (state_ < kLowest) state_ = state_ << 16U | next_word();
    return kOf.ordered[kOf.first[which] + rank];
  }
  // The writer's first state, and nothing left over.
  bool ended() const { return !short_ && at_ == words_.size() && state_ == kLowest; }

 private:
  uint32_t next_word() {
    if (at_ == words_.size()) {
      short_ = true;
      return 0;
    }
    at_ += 2;
    return read_word(words_.data() + at_ - 2);
  }

  const Model& model_;
  std::span<const uint8_t> words_;
  std::array<uint64_t, kClasses> inverse_ = {};
  size_t at_ = 0;
  bool short_ = false;
  uint32_t state_ = 0;
};

void append_as_they_are(const Group& group, const uint8_t* blocks, std::vector<uint8_t>& packed) {
  packed.assign(1, 0);
  packed.insert(packed.end(), blocks, blocks + group.bytes);
}

bool has_short_scales(const Group& group, const uint8_t* blocks) {
  bool short_ones = true;
  for_group_blocks(group, [&](int64_t byte, int64_t) {
    for (int64_t low = 0; low < kScaleBytes - kPackedScale; ++low) {
      short_ones = short_ones && blocks[byte + low] == 0;
    }
  });
  return short_ones;
}

void pack_group(const Group& group, const uint8_t* blocks, std::vector<uint8_t>& packed) {
  const int level = level_of(group, blocks);
  if (level < kLevelMin || !has_short_scales(group, blocks)) {
    return append_as_they_are(group, blocks, packed);
  }
  const Model model = make_model(level);
  std::vector<uint8_t> words;
  words.reserve(static_cast<size_t>(group.bytes));
  Writer writer(model, words);
  std::array<const uint8_t*, kGroupBlocks> begins = {};
  std::array<int64_t, kGroupBlocks> lengths = {};
  size_t listed = 0;
  packed.assign(kHeaderBytes, 0);
  for_group_blocks(group, [&](int64_t byte, int64_t codes) {
    const uint8_t* const codes_begin = blocks + byte + kScaleBytes;
    packed.insert(packed.end(), codes_begin - kPackedScale, codes_begin);
    begins[listed] = codes_begin;
    lengths[listed++] = codes;
  });
  while (listed-- > 0) {
    for (int64_t k = lengths[listed]; k-- > 0;) writer.write(begins[listed][k]);
  }
  writer.end();
  if (packed.size() + words.size() > static_cast<size_t>(group.bytes)) {
    return append_as_they_are(group, blocks, packed);
  }
  packed[0] = static_cast<uint8_t>(level);
  write_word(static_cast<uint32_t>(words.size() / 2), packed.data() + 1);
  packed.insert(packed.end(), words.rbegin(), words.rend());
}

// One group of a message that is yet to be unpacked. Bytes: 0 if it cannot be one.
struct PackedGroup {
  int level = 0;
  int64_t bytes = 0;
};

PackedGroup packed_group(const Group& group, std::span<const uint8_t> rest) {
  if (rest.empty()) return {};
  PackedGroup found = {.level = rest[0]};
  if (found.level == 0) {
    found.bytes = 1 + group.bytes;
  } else if (found.level < kLevelMin || std::ssize(rest) < kHeaderBytes) {
    return {};
  } else {
    found.bytes =
        kHeaderBytes + kPackedScale * group.blocks + 2 * int64_t{read_word(rest.data() + 1)};
  }
  if (found.bytes > std::ssize(rest)) return {};
  return found;
}

bool unpack_group(const Group& group, int level, std::span<const uint8_t> packed, uint8_t* blocks) {
  if (level == 0) {
    std::copy_n(packed.data() + 1, group.bytes, blocks);
    return true;
  }
  const Model model = make_model(level);
  const uint8_t* scale = packed.data() + kHeaderBytes;
  const auto words = static_cast<size_t>(kHeaderBytes + kPackedScale * group.blocks);
  Reader reader(model, packed.subspan(words));
  for_group_blocks(group, [&](int64_t byte, int64_t codes) {
    uint8_t* const to = blocks + byte + kScaleBytes;
    std::fill(blocks + byte, to - kPackedScale, uint8_t{0});
    std::copy_n(scale, kPackedScale, to - kPackedScale);
    scale += kPackedScale;
    for (int64_t k = 0; k < codes; ++k) to[k] = reader.read();
  });
  return reader.ended();
}

}  // namespace

std::vector<uint8_t> pack_ternary(std::span<const uint8_t> blocks, int64_t count) {
  const int64_t groups = group_count(count);
  std::vector<std::vector<uint8_t>> parts(static_cast<size_t>(groups));
  at::parallel_for(0, groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const Group group = group_at(at, count);
      pack_group(group, blocks.data() + group.first_byte, parts[static_cast<size_t>(at)]);
    }
  });
  std::vector<uint8_t> packed;
  for (const std::vector<uint8_t>& part : parts) {
    packed.insert(packed.end(), part.begin(), part.end());
  }
  if (packed.size() >= blocks.size()) packed.assign(blocks.begin(), blocks.end());
  return packed;
}

bool unpack_ternary(std::span<const uint8_t> packed, int64_t count, std::span<uint8_t> blocks) {
  const int64_t bytes = blocks_bytes(WireFormat::kTernary, count);
  LEEWAY_CHECK(std::ssize(blocks) == bytes, "room for the blocks");
  if (std::ssize(packed) > bytes) return false;
  if (std::ssize(packed) == bytes) {
    std::ranges::copy(packed, blocks.begin());
    return true;
  }
  const int64_t groups = group_count(count);
  std::vector<std::span<const uint8_t>> parts;
  for (int64_t at = 0; at < groups; ++at) {
    const auto length = static_cast<size_t>(packed_group(group_at(at, count), packed).bytes);
    if (length == 0) return false;
    parts.push_back(packed.first(length));
    packed = packed.subspan(length);
  }
  if (!packed.empty()) return false;
  std::vector<char> sound(parts.size());
  at::parallel_for(0, groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const auto& part = parts[static_cast<size_t>(at)];
      const Group group = group_at(at, count);
      sound[static_cast<size_t>(at)] =
          unpack_group(group, part[0], part, blocks.data() + group.first_byte) ? 1 : 0;
    }
  });
  return std::ranges::find(sound, 0) == sound.end();
}

double packed_ternary_bytes(int64_t count, double kept_share) {
  const auto whole = static_cast<double>(blocks_bytes(WireFormat::kTernary, count));
  if ((1 - kept_share) * kLevels < kLevelMin) return whole;
  const auto information = [](double share) { return share > 0 ? -share * std::log2(share) : 0; };
  const double sign = kept_share;  // a bit for each
  const double digits = information(kept_share) + information(1 - kept_share) + sign;
  const int64_t scales = (count + kTernaryBlock - 1) / kTernaryBlock * kPackedScale;
  const int64_t ends = group_count(count) * (kHeaderBytes + 4);  // and the coder's last state
  const double bytes = static_cast<double>(count) * digits / 8 + static_cast<double>(scales + ends);
  return std::min(bytes, whole);
}

}  // namespace leeway
