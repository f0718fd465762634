#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "../../support/data_files.h"
#include "../../support/temporary_folder.h"
#include "data/document_splitter.h"
#include "data/ordered_pool.h"
#include "data/text_source.h"

namespace leeway {
namespace {

class Collected final : public DocumentSink {
 public:
  void add_text(std::string_view text) override { all += text; }
  void end_document() override { all += "\n[end]\n"; }
  std::string all;
};

// Made of the parts that the rules look for, so that near misses are common.
std::string any_text() {
  const auto word = rc::gen::element<std::string>(
      "<|endoftext|>", "<|endo", "|>", "<doc ", "</doc>", "</do", "\n", "\r\n", "\r", "\n\n", " ",
      "a", "word", "\xc3\xa9", "\xff", std::string("\0", 1));
  std::string text;
  for (const std::string& part : *rc::gen::container<std::vector<std::string>>(word)) text += part;
  return text;
}

RC_GTEST_PROP(DocumentSplitterProperty, BlocksDoNotMatter, ()) {
  const auto rule =
      *rc::gen::element<std::string>("auto", "file", "line", "blank-line", "separator:wordword");
  const std::string text = any_text();
  const DocumentOptions options = *parse_documents(rule);
  Collected whole;
  DocumentSplitter at_once(options, whole);
  at_once.add(text);
  at_once.end_file();
  Collected torn;
  DocumentSplitter in_blocks(options, torn);
  for (size_t at = 0; at < text.size();) {
    const auto length = *rc::gen::inRange<size_t>(1, 9);
    in_blocks.add(std::string_view(text).substr(at, length));
    at += length;
  }
  in_blocks.end_file();
  RC_ASSERT(torn.all == whole.all);
}

RC_GTEST_PROP(OrderedPoolProperty, ResultsComeInTheOrderOfTheWork, ()) {
  const auto pieces =
      *rc::gen::container<std::vector<std::string>>(rc::gen::arbitrary<std::string>());
  const auto in_flight_max = *rc::gen::inRange<size_t>(1, 8);
  OrderedPool<std::string, std::string> pool(*rc::gen::inRange(1, 6), [](const std::string& in) {
    return std::string(in.rbegin(), in.rend());
  });
  std::vector<std::string> results;
  size_t in_flight = 0;
  for (const std::string& piece : pieces) {
    pool.push(piece);
    ++in_flight;
    for (; in_flight > in_flight_max; --in_flight) results.push_back(pool.pop());
    while (const auto ready = pool.try_pop()) {
      results.push_back(*ready);
      --in_flight;
    }
  }
  while (!pool.empty()) results.push_back(pool.pop());
  RC_ASSERT(results.size() == pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    RC_ASSERT(results[i] == std::string(pieces[i].rbegin(), pieces[i].rend()));
  }
}

RC_GTEST_PROP(OrderedPoolProperty, UnwantedWorkIsDropped, ()) {
  OrderedPool<int, int> pool(*rc::gen::inRange(1, 4), [](int in) { return in; });
  const auto count = *rc::gen::inRange(0, 50);
  for (int i = 0; i < count; ++i) pool.push(i);
}  // The destructor must return, whatever is still running.

// A compressed file with flipped bytes gives text or an error, never a crash or an endless loop.
RC_GTEST_PROP(TextSourceProperty, DamageNeverCrashes, (std::string text)) {
  const TemporaryFolder folder;
  std::vector<Path> paths;
#ifdef LEEWAY_ZLIB
  paths.push_back(write_data(folder / "a.gz", gzip(text)));
#endif
#ifdef LEEWAY_ZSTD
  paths.push_back(write_data(folder / "a.zst", zstd(text)));
#endif
  for (const Path& path : paths) {
    std::string bytes = *read_text(path);
    bytes[*rc::gen::inRange<size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
    bytes.resize(*rc::gen::inRange<size_t>(1, bytes.size() + 1));
    write_data(path, bytes);
    const auto source = TextSource::open({.path = path});
    RC_ASSERT(source.ok());
    std::vector<char> block(16);
    for (int reads = 0; reads < 1'000'000; ++reads) {
      const auto got = (*source)->read(block);
      if (!got.ok() || *got < block.size()) break;
    }
  }
}

}  // namespace
}  // namespace leeway
