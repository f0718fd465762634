// The files of one log. Lines go to `events.jsonl`. When it is large it becomes `events.jsonl.1`,
// later 2 and so on, and an empty one takes its place; the numbered part is compressed to
// `events.jsonl.1.zst` if the build has zstd. Everything that reads a log does so through here and
// sees one sequence of lines.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

// Parts count from 1; the file that still grows is the last.
struct LogPosition {
  int64_t part = 1;
  uint64_t offset = 0;  // in bytes that are not compressed
  int64_t lines = 0;    // of the part, before the offset
  bool operator==(const LogPosition&) const = default;
};

struct LogLine {
  std::string_view text;    // without its newline
  const std::string& file;  // without .zst, which has no lines
  int64_t number = 0;       // in that file, from 1
  std::string place() const { return file + ":" + std::to_string(number); }
};

// Returns whether to read on.
using UseLine = std::function<Result<bool>(const LogLine& line)>;

struct LogRead {
  LogPosition end;   // after the last complete line
  std::string rest;  // of an incomplete line
};

// Where the log ends now; `lines` is not counted. Nothing: there is no log.
std::optional<LogPosition> log_end(const Path& log);

// Reads the complete lines from one position to another, or to where the log ends now. A writer may
// add lines and start new parts meanwhile.
Result<LogRead> read_log(const Path& log, const LogPosition& from,
                         const std::optional<LogPosition>& until, const UseLine& use);

// For the writer. Renames the file that grows to the next part and returns that part's path, so
// that a crash at any point loses no line and doubles none.
Result<Path> close_part(const Path& log);
// Compresses parts that are not yet, and removes what a crash left of an attempt. A part that
// cannot be compressed, for example because the disk is full, stays as it is.
void compress_parts(const Path& log);
void remove_parts(const Path& log);

}  // namespace leeway
