// The bytes of one file of a log, unpacked if it is compressed; and its compression.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace leeway {

inline constexpr std::string_view kPackedEnding = ".zst";

class LogBytes {
 public:
  // Null: there is no such file.
  static Result<std::unique_ptr<LogBytes>> open(const Path& path);
  virtual ~LogBytes() = default;
  LogBytes(const LogBytes&) = delete;
  LogBytes& operator=(const LogBytes&) = delete;

  // 0: the end, for now.
  virtual Result<size_t> read(char* into, size_t size) = 0;
  virtual Status skip(uint64_t bytes);

 protected:
  LogBytes() = default;
};

// Writes PATH.zst beside the file. An error if the build has no zstd.
Status pack(const Path& path);

}  // namespace leeway
