// Writes, compresses and reads back files for the data tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_file.h"

#ifdef LEEWAY_ZLIB
#include <zlib.h>
#endif
#ifdef LEEWAY_ZSTD
#include <zstd.h>
#endif

namespace leeway {

inline std::string write_data(const Path& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
  return path.string();
}

// All ids of a token file, as the model reads them.
inline std::vector<int64_t> ids_in(const Path& path) {
  const auto file = TokenFile::open(path);
  EXPECT_TRUE(file.ok()) << file.error().message;
  std::vector<int64_t> ids(file->info().count);
  file->read(0, ids);
  return ids;
}

// The ids of a file made by the bytes tokenizer as text, with | for the document marker.
inline std::string text_in(const Path& path) {
  std::string text;
  for (const int64_t id : ids_in(path)) text += id == 256 ? '|' : static_cast<char>(id);
  return text;
}

#ifdef LEEWAY_ZLIB
inline std::string gzip(std::string_view text) {
  z_stream stream = {};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(::deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}
#endif

#ifdef LEEWAY_ZSTD
inline std::string zstd(std::string_view text) {
  std::string packed(::ZSTD_compressBound(text.size()), '\0');
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}
#endif

}  // namespace leeway
