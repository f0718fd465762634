// Plain values to bytes and back, in this machine's byte order. What is read is untrusted: a reader
// that runs out of bytes gives zeros from then on, and says so.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace leeway {

class ByteWriter {
 public:
  template <class Value>
  void put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void put_text(std::string_view text) {
    put(text.size());
    put_bytes(std::as_bytes(std::span(text)));
  }
  std::vector<std::byte> take() { return std::exchange(bytes_, {}); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class Value>
  Value take() {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value value = {};
    const std::span<const std::byte> bytes = take_bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  // Empty if there are not that many.
  std::span<const std::byte> take_bytes(size_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::string take_text() {
    const std::span<const std::byte> bytes = take_bytes(take<size_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  size_t left() const { return rest_.size(); }
  bool ok() const { return ok_; }  // nothing was missing so far

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace leeway
