#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/fake_tokenizer.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

// A file that opens must be readable to its last id.
void use(const Path& path) {
  const auto file = TokenFile::open(path);
  if (!file.ok()) {
    RC_ASSERT(!file.error().message.empty());
    return;
  }
  std::vector<int64_t> ids(file->info().count);
  file->read(0, ids);
  // The results may be anything, but must not touch a byte outside the file.
  static_cast<void>(file->check_ids(file->info().vocabulary));
  static_cast<void>(file->check_content());
}

std::string written(const Path& path, const std::vector<std::vector<TokenId>>& pieces,
                    int64_t vocabulary) {
  FakeTokenizer tokenizer;
  tokenizer.size = vocabulary;
  auto writer = TokenFileWriter::create(path, tokenizer);
  for (const auto& ids : pieces) RC_ASSERT(writer->append(ids).ok());
  RC_ASSERT(writer->commit(1, 2).ok());
  return *read_text(path);
}

// A valid file to damage, made once, because writing one waits for the disk.
const std::string& good_file() {
  static const std::string bytes = [] {
    const TemporaryFolder folder;
    return written(folder / "a.tokens", {{1, 2, 3, 4, 5}}, 257);
  }();
  return bytes;
}

RC_GTEST_PROP(TokenFileProperty, IdsComeBack, ()) {
  const TemporaryFolder folder;
  const auto vocabulary = *rc::gen::element<int64_t>(2, 257, 65536, 65537, 1'000'000);
  const auto id = rc::gen::inRange<TokenId>(0, static_cast<TokenId>(vocabulary));
  const auto pieces = *rc::gen::container<std::vector<std::vector<TokenId>>>(
      rc::gen::container<std::vector<TokenId>>(id));
  written(folder / "a.tokens", pieces, vocabulary);
  std::vector<int64_t> expected;
  for (const auto& ids : pieces) expected.insert(expected.end(), ids.begin(), ids.end());
  RC_ASSERT(ids_in(folder / "a.tokens") == expected);
  const auto file = TokenFile::open(folder / "a.tokens");
  RC_ASSERT(file->check_ids(static_cast<uint64_t>(vocabulary)).ok());
  RC_ASSERT(file->check_content().ok());
}

RC_GTEST_PROP(TokenFileProperty, ATruncatedFileNeverOpens, ()) {
  const TemporaryFolder folder;
  const std::string& bytes = good_file();
  const auto length = *rc::gen::inRange<size_t>(0, bytes.size());
  const Path cut = write_data(folder / "cut.tokens", bytes.substr(0, length));
  RC_ASSERT(!TokenFile::open(cut).ok());
}

RC_GTEST_PROP(TokenFileProperty, DamageNeverCrashes, ()) {
  const TemporaryFolder folder;
  std::string bytes = good_file();
  const auto hits = *rc::gen::inRange(1, 6);
  for (int i = 0; i < hits; ++i) {
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
  }
  use(write_data(folder / "b.tokens", bytes));
  use(write_data(folder / "b.bin", bytes));
}

RC_GTEST_PROP(TokenFileProperty, GarbageNeverCrashes, (const std::string& garbage)) {
  const TemporaryFolder folder;
  use(write_data(folder / "a.tokens", garbage));
  use(write_data(folder / "a.bin", garbage));
  use(write_data(folder / "b.tokens", "LEEWAYTK" + garbage));
}

}  // namespace
}  // namespace leeway
