// What tells whether two processes train on the same tokens.
#pragma once

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "data/token_file.h"

namespace leeway {

struct DataFacts {
  std::string train;  // hashes
  std::string valid;
  int64_t vocabulary = 0;
};

// `valid` null: there is none.
inline DataFacts data_facts(const TokenFile& train, const TokenFile* valid, int64_t vocabulary) {
  return {.train = hash_hex(train.info().content_hash),
          .valid = hash_hex(valid == nullptr ? 0 : valid->info().content_hash),
          .vocabulary = vocabulary};
}

}  // namespace leeway
