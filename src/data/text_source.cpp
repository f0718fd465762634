#include "data/text_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#ifdef LEEWAY_ZLIB
#include <zlib.h>
#endif
#ifdef LEEWAY_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

namespace leeway {
namespace {

constexpr size_t kStoredBlockBytes = 128 * 1024;

[[maybe_unused]] Error damaged(const std::string& name, std::string_view what) {
  return Error{fmt::format("{} is {}; get the file again, or unpack it by hand", name, what)};
}

// The bytes as they are stored; the first ones can be looked at before they are consumed.
class StoredBytes {
 public:
  StoredBytes(std::string name, int descriptor)
      : name_(std::move(name)), descriptor_(descriptor), buffer_(kStoredBlockBytes) {}
  ~StoredBytes() {
    if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
  }
  StoredBytes(const StoredBytes&) = delete;
  StoredBytes& operator=(const StoredBytes&) = delete;

  // The next bytes; empty at the end. consume() moves past them.
  Result<std::span<const char>> peek() {
    if (begin_ == end_) {
      pollfd ready = {.fd = descriptor_, .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, -1) < 0) return file_error("read", name_, errno);  // Ctrl-C ends here.
      const ssize_t got = ::read(descriptor_, buffer_.data(), buffer_.size());
      if (got < 0) return file_error("read", name_, errno);
      begin_ = 0;
      end_ = static_cast<size_t>(got);
      total_ += end_;
    }
    return std::span<const char>(buffer_.data() + begin_, end_ - begin_);
  }
  void consume(size_t count) { begin_ += count; }

  const std::string& name() const { return name_; }
  uint64_t consumed_total() const { return total_ - (end_ - begin_); }

 private:
  std::string name_;
  int descriptor_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t total_ = 0;
};

// Fills `out` from a function that returns some bytes, or none at the end.
template <class Some>
Result<size_t> fill(std::span<char> out, Some some) {
  size_t done = 0;
  while (done < out.size()) {
    LEEWAY_ASSIGN(const size_t got, some(out.subspan(done)));
    if (got == 0) break;
    done += got;
  }
  return done;
}

class PlainSource final : public TextSource {
 public:
  explicit PlainSource(std::unique_ptr<StoredBytes> stored) : stored_(std::move(stored)) {}

  Result<size_t> read(std::span<char> out) override {
    return fill(out, [this](std::span<char> rest) -> Result<size_t> {
      LEEWAY_ASSIGN(const auto next, stored_->peek());
      const size_t count = std::min(rest.size(), next.size());
      std::memcpy(rest.data(), next.data(), count);
      stored_->consume(count);
      return count;
    });
  }
  uint64_t stored_bytes_read() const override { return stored_->consumed_total(); }

 private:
  std::unique_ptr<StoredBytes> stored_;
};

#ifdef LEEWAY_ZLIB
class GzipSource final : public TextSource {
 public:
  explicit GzipSource(std::unique_ptr<StoredBytes> stored) : stored_(std::move(stored)) {
    LEEWAY_CHECK(::inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK,
                 "zlib cannot start");  // 16: gzip
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }

  Result<size_t> read(std::span<char> out) override {
    return fill(out, [this](std::span<char> rest) { return some(rest); });
  }
  uint64_t stored_bytes_read() const override { return stored_->consumed_total(); }

 private:
  // Also called after the last stored bytes: zlib may still have text that did not fit before.
  Result<size_t> some(std::span<char> out) {
    size_t got = 0;
    while (got == 0) {
      LEEWAY_ASSIGN(const auto next, stored_->peek());
      if (next.empty() && between_members_) break;
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next.data()));
      stream_.avail_in = static_cast<uInt>(next.size());
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(out.size());
      const int result = ::inflate(&stream_, Z_NO_FLUSH);
      got = out.size() - stream_.avail_out;
      stored_->consume(next.size() - stream_.avail_in);
      if (next.empty() && got == 0 && result != Z_STREAM_END) {
        return damaged(stored_->name(), "a gzip file that ends too early");
      }
      if (result != Z_OK && result != Z_STREAM_END) {
        return damaged(stored_->name(), "not a gzip file, or a damaged one");
      }
      between_members_ = result == Z_STREAM_END;  // Files made by `cat a.gz b.gz` have several.
      if (between_members_) ::inflateReset(&stream_);
    }
    return got;
  }

  std::unique_ptr<StoredBytes> stored_;
  z_stream stream_ = {};
  bool between_members_ = false;
};
#endif

#ifdef LEEWAY_ZSTD
// Half of what `zstd -d` allows: with more, `data prepare` would not stay below 200 MB.
constexpr int kWindowLogMax = 26;

class ZstdSource final : public TextSource {
 public:
  explicit ZstdSource(std::unique_ptr<StoredBytes> stored)
      : stored_(std::move(stored)), stream_(::ZSTD_createDStream()) {
    LEEWAY_CHECK(stream_ != nullptr, "zstd cannot start");
    ::ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kWindowLogMax);
  }
  ~ZstdSource() override { ::ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  Result<size_t> read(std::span<char> out) override {
    return fill(out, [this](std::span<char> rest) { return some(rest); });
  }
  uint64_t stored_bytes_read() const override { return stored_->consumed_total(); }

 private:
  // Also called after the last stored bytes: zstd may still have text that did not fit before.
  Result<size_t> some(std::span<char> out) {
    ZSTD_outBuffer into = {out.data(), out.size(), 0};
    while (into.pos == 0) {
      LEEWAY_ASSIGN(const auto next, stored_->peek());
      if (next.empty() && between_frames_) break;
      ZSTD_inBuffer from = {next.data(), next.size(), 0};
      const size_t result = ::ZSTD_decompressStream(stream_, &into, &from);
      if (::ZSTD_isError(result) != 0) return refused(result);
      stored_->consume(from.pos);
      between_frames_ = result == 0;
      if (next.empty() && into.pos == 0 && !between_frames_) {
        return damaged(stored_->name(), "a Zstandard file that ends too early");
      }
    }
    return into.pos;
  }

  Error refused(size_t result) const {
    if (::ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge) {
      return Error{
          fmt::format("{} needs more than {} MiB of memory to unpack, which is the limit here; "
                      "unpack it first with `zstd -d --long=31`",
                      stored_->name(), 1 << (kWindowLogMax - 20))};
    }
    return damaged(stored_->name(), fmt::format("not a Zstandard file, or a damaged one ({})",
                                                ::ZSTD_getErrorName(result)));
  }

  std::unique_ptr<StoredBytes> stored_;
  ZSTD_DStream* stream_;
  bool between_frames_ = false;
};
#endif

enum class Packing { kPlain, kGzip, kZstd };

Packing packing_of(const Path& path, std::span<const char> begin) {
  if (path.extension() == ".gz") return Packing::kGzip;
  if (path.extension() == ".zst") return Packing::kZstd;
  // Valid UTF-8 text starts with neither magic number.
  const std::string_view text(begin.data(), begin.size());
  if (text.starts_with("\x1f\x8b\x08")) return Packing::kGzip;
  if (text.starts_with("\x28\xb5\x2f\xfd")) return Packing::kZstd;
  return Packing::kPlain;
}

[[maybe_unused]] Error not_built_in(const std::string& name, std::string_view library) {
  return Error{
      fmt::format("cannot read {}: this program was built without {}; unpack the file "
                  "first, or build with it",
                  name, library)};
}

}  // namespace

Result<std::unique_ptr<TextSource>> TextSource::open(const InputFile& input) {
  const std::string name = input.name();
  const int descriptor =
      input.is_stdin() ? STDIN_FILENO : ::open(input.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return file_error("read", name, errno);
  auto stored = std::make_unique<StoredBytes>(name, descriptor);
  LEEWAY_ASSIGN(const auto begin, stored->peek());
  std::unique_ptr<TextSource> source;
  switch (packing_of(input.path, begin)) {
    case Packing::kPlain:
      source = std::make_unique<PlainSource>(std::move(stored));
      break;
    case Packing::kGzip:
#ifdef LEEWAY_ZLIB
      source = std::make_unique<GzipSource>(std::move(stored));
      break;
#else
      return not_built_in(name, "zlib");
#endif
    case Packing::kZstd:
#ifdef LEEWAY_ZSTD
      source = std::make_unique<ZstdSource>(std::move(stored));
      break;
#else
      return not_built_in(name, "zstd");
#endif
  }
  return source;
}

}  // namespace leeway
