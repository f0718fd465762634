// One content hash for the whole project: XXH3, 64 bits, printed as 16 hex digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace leeway {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t hash_text(std::string_view text, uint64_t seed = 0);
std::string hash_hex(uint64_t hash);

// The hash of bytes that arrive in pieces; equals hash_bytes of the whole.
class StreamingHash {
 public:
  StreamingHash();
  ~StreamingHash();
  StreamingHash(StreamingHash&&) noexcept;
  StreamingHash& operator=(StreamingHash&&) noexcept;
  void add(std::span<const std::byte> bytes);
  uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leeway
