// What a worker has done, for tests to read.
#pragma once

#include <string>

#include "../../support/mesh_testing.h"

namespace leeway {

// One stage's work as "F0 F1 B0 U1".
inline std::string story(const MemoryRecorder& recorder, int64_t stage) {
  const std::string letters = "FBUSECR";  // contribute, reduce: copies for evaluation
  std::string text;
  for (const WorkRecord& record : recorder.records) {
    if (record.worker.stage.value != stage) continue;
    if (!text.empty()) text += ' ';
    text += letters[static_cast<size_t>(record.work.kind)];
    text += std::to_string(record.work.index);
  }
  return text;
}

}  // namespace leeway
