// Where each named parameter of a stage lies in the stage's flat buffer. This is all that model,
// optimizers and checkpoints share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace leeway {

enum class ParameterKind {
  kMatrix,     // a 2-D weight of a block; Muon updates these
  kEmbedding,  // token or position table
  kHead,       // the output projection
  kVector,     // norms and biases: no weight decay
};

struct Parameter {
  std::string name;
  ParameterKind kind = ParameterKind::kVector;
  int64_t offset = 0;  // where its first element is in the flat buffer
  int64_t rows = 1;    // a vector has one row
  int64_t cols = 0;
  int64_t count() const { return rows * cols; }
};

// Ascending offsets without gaps: the buffer's length is the sum of the counts.
using ParameterLayout = std::vector<Parameter>;

inline int64_t parameter_count(const ParameterLayout& layout) {
  return layout.empty() ? 0 : layout.back().offset + layout.back().count();
}

}  // namespace leeway
