// tokenize_probe SPEC: what test_tokenizers.py compares with the Python packages. Reads one request
// after another from stdin, answers on stdout; numbers are little-endian 32 bits.
//
//   'e' size text   -> count ids         encode
//   'd' count ids   -> size text         decode
//   'c' size text   -> position          last safe cut
//   's' size path   -> 0 or 1            save to a folder (1: failed, reason on stderr)
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace {

bool read_exactly(void* out, size_t bytes) { return std::fread(out, 1, bytes, stdin) == bytes; }

void write_number(size_t value) {
  const auto narrow = static_cast<uint32_t>(value);
  std::fwrite(&narrow, sizeof narrow, 1, stdout);
}

// One request; `payload` is the text, or ids for 'd'.
void answer(const leeway::Tokenizer& tokenizer, char request, const std::vector<char>& payload) {
  const std::string_view text(payload.data(), payload.size());
  std::vector<leeway::TokenId> ids;
  switch (request) {
    case 'e':
      if (!tokenizer.encode(text, ids).ok()) std::abort();
      write_number(ids.size());
      std::fwrite(ids.data(), sizeof(leeway::TokenId), ids.size(), stdout);
      break;
    case 'd': {
      ids.resize(payload.size() / sizeof(leeway::TokenId));
      std::copy(payload.begin(), payload.end(), reinterpret_cast<char*>(ids.data()));
      const std::string decoded = tokenizer.decode(ids);
      write_number(decoded.size());
      std::fwrite(decoded.data(), 1, decoded.size(), stdout);
      break;
    }
    case 'c':
      write_number(tokenizer.last_safe_cut(text));
      break;
    case 's': {
      const leeway::Status status = tokenizer.save(leeway::Path(std::string(text)));
      if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
      write_number(status.ok() ? 0 : 1);
      break;
    }
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tokenize_probe SPEC\n");
    return 2;
  }
  const auto tokenizer = leeway::load_tokenizer(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return tokenizer.error().kind == leeway::ErrorKind::kUsage ? 2 : 1;
  }
  char request = 0;
  uint32_t size = 0;
  while (read_exactly(&request, 1) && read_exactly(&size, sizeof size)) {
    std::vector<char> payload(request == 'd' ? size * sizeof(leeway::TokenId) : size);
    if (!read_exactly(payload.data(), payload.size())) return 1;
    answer(**tokenizer, request, payload);
  }
  return 0;
}
