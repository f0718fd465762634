#include "report/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace leeway {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // bit-reversed
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * kPolynomial);
    table[i] = value;
  }
  return table;
}

template <class Unsigned>
void put_little_endian(std::string& out, Unsigned value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>((value >> (8 * i)) & 0xFF);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

// Protocol buffers: a field is its number and wire type, then its value.
void put_double(std::string& out, int field, double value) {
  put_varint(out, static_cast<uint64_t>(field << 3 | 1));
  put_little_endian(out, std::bit_cast<uint64_t>(value));
}
void put_float(std::string& out, int field, float value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 5);
  put_little_endian(out, std::bit_cast<uint32_t>(value));
}
void put_integer(std::string& out, int field, int64_t value) {
  put_varint(out, static_cast<uint64_t>(field) << 3);
  put_varint(out, static_cast<uint64_t>(value));
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

// TFRecord masks checksums, since the CRC of data that contains CRCs is weak.
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

void put_record(std::string& out, std::string_view event) {
  std::string length;
  put_little_endian(length, static_cast<uint64_t>(event.size()));
  out += length;
  put_little_endian(out, masked(crc32c(length)));
  out += event;
  put_little_endian(out, masked(crc32c(event)));
}

struct Scalar {
  double seconds = 0;
  int64_t step = 0;
  std::string_view tag;
  float value = 0;
};

std::string scalar_event(const Scalar& scalar) {
  std::string value;
  put_bytes(value, 1, scalar.tag);
  put_float(value, 2, scalar.value);
  std::string summary;
  put_bytes(summary, 1, value);
  std::string event;
  put_double(event, 1, scalar.seconds);
  put_integer(event, 2, scalar.step);
  put_bytes(event, 5, summary);
  return event;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~crc;
}

std::string tensorboard_file(const RunData& run, double begin_seconds) {
  std::vector<Scalar> scalars;
  for (size_t i = 0; i < run.curves.size(); ++i) {
    for (const Point& point : run.curves[i].points()) {
      scalars.push_back({.seconds = begin_seconds + point.at.seconds,
                         .step = point.at.update,
                         .tag = curve_word(static_cast<Curve>(i)),
                         .value = static_cast<float>(point.value)});
    }
  }
  std::stable_sort(scalars.begin(), scalars.end(),
                   [](const Scalar& a, const Scalar& b) { return a.step < b.step; });
  std::string file;
  std::string first;
  put_double(first, 1, begin_seconds);
  put_bytes(first, 3, "brain.Event:2");  // the version of the format
  put_record(file, first);
  for (const Scalar& scalar : scalars) put_record(file, scalar_event(scalar));
  return file;
}

}  // namespace leeway
