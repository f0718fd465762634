// The keys of CURVE, ZeroMQ's encryption, as text (Z85) and as files. Every machine has a pair; the
// others know its public key (fleet/allow_list.h). No error names a secret.
#pragma once

#include <string>
#include <string_view>

#include "base/files.h"

namespace leeway::zmq {

inline constexpr size_t kKeyLength = 40;  // characters of a key in Z85

struct KeyPair {
  std::string public_key;
  std::string secret_key;
  bool operator==(const KeyPair&) const = default;
};

Result<KeyPair> new_key_pair();

// Whether the text is a key, public or secret: 32 bytes in Z85.
bool is_key(std::string_view text);

// FILE with both keys, which only its owner can read, and FILE.pub with the public one, for
// everybody. Neither may exist: who overwrites a key locks a machine out.
Status write_key_pair(const Path& file, const KeyPair& keys);

// Refuses a file that others can read, and keys that do not belong together.
Result<KeyPair> read_key_pair(const Path& file);

// A public key as people give it: the key itself, or its file (FILE.pub).
Result<std::string> read_public_key(const Path& file_or_key);

// FILE.pub of FILE.
Path public_file(const Path& file);

}  // namespace leeway::zmq
