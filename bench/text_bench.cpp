// Speeds on the way from text to batches, one thread each:
//
//   text_bench encode SPEC FILE     bytes of text per second through a tokenizer
//   text_bench read TOKEN_FILE      bytes of ids per second from a token file in page cache
//
// prints one JSON object: {"per_second": ..., "count": ..., "peak_rss_bytes": ...}
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/process.h"
#include "data/sampler.h"
#include "data/token_file.h"
#include "tokenizers/tokenizer.h"

namespace {

constexpr int kRounds = 5;

// The best of a few rounds: what the code can do on a quiet machine.
template <class Function>
double best_seconds(const Function& function) {
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    function();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

void print(double per_second, uint64_t count) {
  fmt::print("{{\"per_second\": {:.6g}, \"count\": {}, \"peak_rss_bytes\": {}}}\n", per_second,
             count, leeway::peak_rss_bytes());
}

int encode(const std::string& spec, const std::string& file) {
  const auto tokenizer = leeway::load_tokenizer(spec);
  if (!tokenizer) return fmt::print(stderr, "{}\n", tokenizer.error().message), 1;
  const auto text = leeway::read_text(file);
  if (!text) return fmt::print(stderr, "{}\n", text.error().message), 1;
  std::vector<leeway::TokenId> ids;
  const double seconds = best_seconds([&] {
    ids.clear();
    if (!(*tokenizer)->encode(*text, ids).ok()) std::abort();
  });
  print(static_cast<double>(text->size()) / seconds, ids.size());
  return 0;
}

int read(const std::string& path) {
  constexpr int64_t kContext = 1024;
  const auto file = leeway::TokenFile::open(path);
  if (!file) return fmt::print(stderr, "{}\n", file.error().message), 1;
  const leeway::SamplerOptions sampler{
      .seed = 1, .window_count = leeway::window_count_of(file->info().count, kContext)};
  std::vector<int64_t> row(kContext + 1);
  const uint64_t windows = sampler.window_count;
  const double seconds = best_seconds([&] {
    for (uint64_t m = 0; m < windows; ++m) {  // shuffled, as training reads them
      const uint64_t window =
          leeway::window_at(sampler, {static_cast<int64_t>(m)}, leeway::ReplicaId{0}, 0);
      file->read(window * kContext, row);
    }
  });
  const double bytes = static_cast<double>(windows * row.size() * file->info().token_bytes);
  print(bytes / seconds, windows);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "encode") return encode(words[1], words[2]);
  if (words.size() == 2 && words[0] == "read") return read(words[1]);
  fmt::print(stderr, "usage: text_bench encode SPEC FILE | text_bench read TOKEN_FILE\n");
  return 2;
}
