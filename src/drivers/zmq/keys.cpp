#include "drivers/zmq/keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>

#include "base/names.h"

#ifdef LEEWAY_ZMQ
#include <zmq.h>
#endif

namespace leeway::zmq {
namespace {

// No quote, no backslash and no white space: a key needs no escapes in a file. None begins with #,
// which would be more than four bytes.
constexpr std::string_view kAlphabet =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
constexpr size_t kFileBytesMax = 4096;  // a key file has about 200

constexpr std::string_view kFirstLine =
    "# Keep this file secret: whoever has it can act as this machine. Others get the .pub file.\n";

#ifdef LEEWAY_ZMQ
Result<KeyPair> generate() {
  std::array<char, kKeyLength + 1> public_key, secret_key;  // with the final zero
  if (::zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    return Error{fmt::format("cannot make a key: {} (install a libzmq with CURVE)",
                             ::zmq_strerror(::zmq_errno()))};
  }
  return KeyPair{.public_key = public_key.data(), .secret_key = secret_key.data()};
}

Result<std::string> public_key_of(const std::string& secret_key) {
  std::array<char, kKeyLength + 1> public_key;
  if (::zmq_curve_public(public_key.data(), secret_key.c_str()) != 0) {
    return Error{fmt::format("cannot check a key: {} (install a libzmq with CURVE)",
                             ::zmq_strerror(::zmq_errno()))};
  }
  return std::string(public_key.data());
}
#else
Error no_zmq() {
  return Error{"this build has no ZeroMQ; configure it with -DLEEWAY_ZMQ=ON (libzmq3-dev)"};
}

Result<KeyPair> generate() { return no_zmq(); }

Result<std::string> public_key_of(const std::string&) { return no_zmq(); }
#endif

// Created with its final permissions, so that nobody else can open it even for a moment.
Status create(const Path& file, std::string_view content, mode_t mode) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  const int descriptor = ::open(file.c_str(), flags, mode);
  if (descriptor < 0 && errno == EEXIST) {
    return usage_error(
        fmt::format("{} exists, and a key is never overwritten; name another file", file.string()));
  }
  if (descriptor < 0) return file_error("create", file, errno);
  const auto written = ::write(descriptor, content.data(), content.size());
  const bool whole = written == static_cast<ssize_t>(content.size());
  int error_number = 0;
  // Sets the mode again: the user's mask may have kept others from reading the public key.
  if (!whole || ::fchmod(descriptor, mode) != 0 || ::fsync(descriptor) != 0)
    error_number = written >= 0 && !whole ? ENOSPC : errno;
  ::close(descriptor);
  if (error_number == 0) return {};
  ::unlink(file.c_str());
  return file_error("write", file, error_number);
}

// Only what a line's place in the file says: the text may be a secret.
Error bad_line(const Path& file, int64_t line) {
  return Error{fmt::format("{}:{}: not a line of a key file; make a new one with `leeway keys new`",
                           file.string(), line)};
}

// The key of a line such as: public = "..."
std::optional<std::string_view> value_in(std::string_view line, std::string_view name) {
  const std::string opening = fmt::format("{} = \"", name);
  if (!line.starts_with(opening) || !line.ends_with('"')) return std::nullopt;
  line.remove_prefix(opening.size());
  if (line.empty()) return std::nullopt;  // the opening quote was the last one
  line.remove_suffix(1);
  return is_key(line) ? std::optional(line) : std::nullopt;
}

Result<KeyPair> parse_key_pair(std::string_view text, const Path& file) {
  KeyPair keys;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    if (const auto key = value_in(line, "public"); key && keys.public_key.empty()) {
      keys.public_key = *key;
    } else if (const auto secret = value_in(line, "secret"); secret && keys.secret_key.empty()) {
      keys.secret_key = *secret;
    } else {
      return bad_line(file, number);
    }
  }
  if (keys.public_key.empty() || keys.secret_key.empty()) {
    return Error{
        fmt::format("{} lacks a public or a secret key; make a new one with `leeway keys "
                    "new`",
                    file.string())};
  }
  return keys;
}

// A short plain file; `secret`: that only its owner can read.
Result<std::string> read_short(const Path& file, bool secret) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) return file_error("read", file, errno);
  if (!S_ISREG(status.st_mode) || status.st_size > static_cast<off_t>(kFileBytesMax)) {
    return Error{
        fmt::format("{} is not a key file; name one made by `leeway keys new`", file.string())};
  }
  if (secret && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error{fmt::format("others can read the secret key in {}; run chmod 600 {}",
                             file.string(), shell_word(file.string()))};
  }
  return read_text(file);
}

}  // namespace

Result<KeyPair> new_key_pair() { return generate(); }

bool is_key(std::string_view text) {
  if (text.size() != kKeyLength) return false;
  uint64_t group = 0;  // five characters are four bytes
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t digit = kAlphabet.find(text[at]);
    if (digit == std::string_view::npos) return false;
    group = 85 * (at % 5 == 0 ? 0 : group) + digit;
    if (group > UINT32_MAX) return false;
  }
  return true;
}

Path public_file(const Path& file) { return Path(file.string() + ".pub"); }

Status write_key_pair(const Path& file, const KeyPair& keys) {
  LEEWAY_CHECK(is_key(keys.public_key) && is_key(keys.secret_key), "only keys are written");
  const std::string secret = fmt::format("{}public = \"{}\"\nsecret = \"{}\"\n", kFirstLine,
                                         keys.public_key, keys.secret_key);
  LEEWAY_TRY(create(file, secret, 0600));
  if (Status status = create(public_file(file), keys.public_key + "\n", 0644); !status.ok()) {
    ::unlink(file.c_str());  // half a pair is none
    return status;
  }
  return sync_folder(file.has_parent_path() ? file.parent_path() : Path("."));
}

Result<KeyPair> read_key_pair(const Path& file) {
  LEEWAY_ASSIGN(const std::string text, read_short(file, /*secret=*/true));
  LEEWAY_ASSIGN(KeyPair keys, parse_key_pair(text, file));
  LEEWAY_ASSIGN(const std::string belongs, public_key_of(keys.secret_key));
  if (belongs != keys.public_key) {
    return Error{
        fmt::format("the public key in {} does not belong to its secret key; make a new "
                    "pair with `leeway keys new`",
                    file.string())};
  }
  return keys;
}

Result<std::string> read_public_key(const Path& file_or_key) {
  if (is_key(file_or_key.string())) return file_or_key.string();
  LEEWAY_ASSIGN(std::string text, read_short(file_or_key, /*secret=*/false));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (is_key(text)) return text;
  return Error{
      fmt::format("{} has no public key; name a .pub file made by `leeway keys new`, or "
                  "give the key itself",
                  file_or_key.string())};
}

}  // namespace leeway::zmq
