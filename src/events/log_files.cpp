#include "events/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "events/log_part.h"

namespace leeway {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kLineBytesMax = size_t{16} << 20;  // far longer than any event

struct PartFiles {
  bool plain = false;
  bool packed = false;
};

// Closed parts by number, and files that a crash left behind.
struct Listing {
  std::map<int64_t, PartFiles> parts;
  std::vector<Path> leftovers;
  bool complete = true;  // false: the folder could not be read
  int64_t last() const { return parts.empty() ? 0 : parts.rbegin()->first; }
};

Path part_path(const Path& log, int64_t part) {
  return Path(log.string() + "." + std::to_string(part));
}

Listing list_parts(const Path& log) {
  Listing listing;
  const std::string start = log.filename().string() + ".";
  const Path folder = log.has_parent_path() ? log.parent_path() : Path(".");
  std::error_code code;  // a folder that cannot be read has no parts; opening the log says why
  for (auto it = std::filesystem::directory_iterator(folder, code);
       !code && it != std::filesystem::directory_iterator(); it.increment(code)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(start)) continue;
    int64_t part = 0;
    const auto [end, error] =
        std::from_chars(name.data() + start.size(), name.data() + name.size(), part);
    if (error != std::errc() || part < 1) continue;
    const std::string_view ending(end, static_cast<size_t>(name.data() + name.size() - end));
    if (ending.empty()) listing.parts[part].plain = true;
    if (ending == kPackedEnding) listing.parts[part].packed = true;
    if (ending.starts_with(std::string(kPackedEnding) + ".tmp-")) {
      listing.leftovers.push_back(it->path());
    }
  }
  listing.complete = !code;
  return listing;
}

// The part, or null if it is the one that grows and does not exist. A part may be closed and
// compressed while it is being looked for.
Result<std::unique_ptr<LogBytes>> open_part(const Path& log, int64_t part) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Listing listing = list_parts(log);
    const Path plain = part_path(log, part);
    if (part <= listing.last()) {
      const auto found = listing.parts.find(part);
      if (found == listing.parts.end()) {
        return Error{plain.string() + " is missing, with a part of the log; restore it"};
      }
      const bool packed = found->second.packed;
      auto opened =
          LogBytes::open(packed ? Path(plain.string() + std::string(kPackedEnding)) : plain);
      if (opened.ok() && *opened == nullptr) continue;  // compressed meanwhile
      return opened;
    }
    auto opened = LogBytes::open(log);
    if (list_parts(log).last() != listing.last()) continue;  // closed meanwhile
    return opened;
  }
  return Error{log.string() + " changes too fast to be read; try again"};
}

class LineReader {
 public:
  LineReader(LogPosition from, std::string file, const UseLine& use)
      : at_(from), file_(std::move(file)), use_(use) {}

  // Whether to read on.
  Result<bool> add(std::string_view bytes) {
    size_t from = rest_.size();
    rest_ += bytes;
    size_t begin = 0;
    bool more = true;
    for (size_t end = rest_.find('\n', from); more && end != std::string::npos;
         end = rest_.find('\n', begin)) {
      ++at_.lines;
      const LogLine line = {std::string_view(rest_).substr(begin, end - begin), file_, at_.lines};
      LEEWAY_ASSIGN(more, use_(line));
      begin = end + 1;
    }
    at_.offset += begin;
    rest_.erase(0, begin);
    if (rest_.size() > kLineBytesMax) {
      return Error{file_ + " is not an event log: it has a line of more than " +
                   std::to_string(kLineBytesMax) + " bytes"};
    }
    return more;
  }

  const LogPosition& at() const { return at_; }
  std::string take_rest() { return std::move(rest_); }

 private:
  LogPosition at_;
  std::string file_;
  const UseLine& use_;
  std::string rest_;
};

}  // namespace

std::optional<LogPosition> log_end(const Path& log) {
  while (true) {
    const int64_t closed = list_parts(log).last();
    std::error_code code;
    const uintmax_t size = std::filesystem::file_size(log, code);
    if (list_parts(log).last() != closed) continue;  // the size may be that of the next part
    if (code && closed == 0) return std::nullopt;
    return LogPosition{.part = closed + 1, .offset = code ? 0 : size};
  }
}

Result<LogRead> read_log(const Path& log, const LogPosition& from,
                         const std::optional<LogPosition>& until, const UseLine& use) {
  LogRead read = {from, ""};
  const LogPosition end = until ? *until : log_end(log).value_or(from);
  std::string buffer(kPieceBytes, '\0');
  for (int64_t part = from.part; part <= end.part; ++part) {
    if (part > from.part) read = {{.part = part}, ""};
    LEEWAY_ASSIGN(const std::unique_ptr<LogBytes> bytes, open_part(log, part));
    if (bytes == nullptr) return read;
    LEEWAY_TRY(bytes->skip(read.end.offset));
    const bool growing = part > list_parts(log).last();
    LineReader lines(read.end, growing ? log.string() : part_path(log, part).string(), use);
    uint64_t left = UINT64_MAX;
    if (part == end.part) left = end.offset - std::min(end.offset, read.end.offset);
    while (left > 0) {
      LEEWAY_ASSIGN(const size_t got,
                    bytes->read(buffer.data(), std::min<uint64_t>(left, buffer.size())));
      if (got == 0) break;
      left -= got;
      LEEWAY_ASSIGN(const bool more, lines.add(std::string_view(buffer).substr(0, got)));
      if (!more) return LogRead{lines.at(), ""};
    }
    read = {lines.at(), lines.take_rest()};
  }
  return read;
}

Result<Path> close_part(const Path& log) {
  const Listing listing = list_parts(log);
  if (!listing.complete) return file_error("list the parts of", log, EIO);
  Path part = part_path(log, listing.last() + 1);
  if (::renameat2(AT_FDCWD, log.c_str(), AT_FDCWD, part.c_str(), RENAME_NOREPLACE) == 0)
    return part;
  // Not every file system can promise that nothing is replaced; the listing says so.
  const bool cannot = errno == EINVAL || errno == ENOSYS;
  if (cannot && ::rename(log.c_str(), part.c_str()) == 0) return part;
  return file_error("rename", log, errno);
}

void compress_parts(const Path& log) {
  const Listing listing = list_parts(log);
  if (!listing.complete) return;
  std::error_code ignored;
  for (const Path& leftover : listing.leftovers) std::filesystem::remove(leftover, ignored);
  for (const auto& [part, files] : listing.parts) {
    if (!files.plain) continue;
    const Path plain = part_path(log, part);
    if (files.packed || pack(plain).ok()) std::filesystem::remove(plain, ignored);
  }
}

void remove_parts(const Path& log) {
  const Listing listing = list_parts(log);
  std::error_code ignored;
  for (const auto& [part, files] : listing.parts) {
    const std::string plain = part_path(log, part).string();
    std::filesystem::remove(plain, ignored);
    std::filesystem::remove(plain + std::string(kPackedEnding), ignored);
  }
}

}  // namespace leeway
