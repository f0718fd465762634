#include "events/log_part.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#ifdef LEEWAY_ZSTD
#include <zstd.h>
#endif

namespace leeway {
namespace {

class PlainBytes final : public LogBytes {
 public:
  PlainBytes(Path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  ~PlainBytes() override { ::close(descriptor_); }

  Result<size_t> read(char* into, size_t size) override {
    while (true) {
      const ssize_t got = ::read(descriptor_, into, size);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return file_error("read", path_, errno);
    }
  }
  Status skip(uint64_t bytes) override {
    if (::lseek(descriptor_, static_cast<off_t>(bytes), SEEK_CUR) >= 0) return {};
    return file_error("read", path_, errno);
  }

 private:
  Path path_;
  int descriptor_;
};

#ifdef LEEWAY_ZSTD
constexpr int kLevel = 3;  // about 300 MB/s

class PackedBytes final : public LogBytes {
 public:
  PackedBytes(Path path, std::unique_ptr<LogBytes> stored)
      : path_(std::move(path)), stored_(std::move(stored)), stream_(::ZSTD_createDStream()) {
    LEEWAY_CHECK(stream_ != nullptr, "zstd cannot start");
  }
  ~PackedBytes() override { ::ZSTD_freeDStream(stream_); }

  Result<size_t> read(char* into, size_t size) override {
    ZSTD_outBuffer out = {into, size, 0};
    while (out.pos == 0) {
      if (from_.pos == from_.size) {
        LEEWAY_ASSIGN(const size_t got, stored_->read(buffer_.data(), buffer_.size()));
        from_ = {buffer_.data(), got, 0};
        if (got == 0 && between_frames_) return size_t{0};
        if (got == 0) return damaged("it ends too early");
      }
      const size_t result = ::ZSTD_decompressStream(stream_, &out, &from_);
      if (::ZSTD_isError(result) != 0) return damaged(::ZSTD_getErrorName(result));
      between_frames_ = result == 0;
    }
    return out.pos;
  }

 private:
  Error damaged(const std::string& why) const {
    return Error{"cannot unpack " + path_.string() + ": " + why + "; restore the file"};
  }

  Path path_;
  std::unique_ptr<LogBytes> stored_;
  ZSTD_DStream* stream_;
  std::array<char, 1 << 16> buffer_;
  ZSTD_inBuffer from_ = {};
  bool between_frames_ = true;
};
#endif

}  // namespace

Result<std::unique_ptr<LogBytes>> LogBytes::open(const Path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) return std::unique_ptr<LogBytes>();
  if (descriptor < 0) return file_error("read", path, errno);
  std::unique_ptr<LogBytes> plain = std::make_unique<PlainBytes>(path, descriptor);
  if (path.extension() != kPackedEnding) return plain;
#ifdef LEEWAY_ZSTD
  return std::unique_ptr<LogBytes>(std::make_unique<PackedBytes>(path, std::move(plain)));
#else
  return Error{"cannot read " + path.string() +
               ": this program was built without zstd; unpack it with `zstd -d --rm`"};
#endif
}

Status LogBytes::skip(uint64_t bytes) {
  std::vector<char> buffer(size_t{1} << 16);
  while (bytes > 0) {
    LEEWAY_ASSIGN(const size_t got, read(buffer.data(), std::min<uint64_t>(bytes, buffer.size())));
    if (got == 0) return {};
    bytes -= got;
  }
  return {};
}

Status pack(const Path& path) {
#ifdef LEEWAY_ZSTD
  LEEWAY_ASSIGN(const MappedFile file, MappedFile::open(path));
  std::vector<std::byte> packed(::ZSTD_compressBound(file.bytes().size()));
  const size_t size = ::ZSTD_compress(packed.data(), packed.size(), file.bytes().data(),
                                      file.bytes().size(), kLevel);
  if (::ZSTD_isError(size) != 0) return Error{::ZSTD_getErrorName(size)};
  LEEWAY_ASSIGN(AtomicFile out, AtomicFile::create(path.string() + std::string(kPackedEnding)));
  LEEWAY_TRY(out.write(std::span(packed).first(size)));
  return out.commit();
#else
  return Error{"cannot compress " + path.string() + ": this program was built without zstd"};
#endif
}

}  // namespace leeway
