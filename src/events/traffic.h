// What the bytes that workers send each other are for. Every count of bytes uses these purposes.
#pragma once

#include <cstdint>
#include <string_view>

#include "events/work.h"

namespace leeway {

enum class Purpose { kActivations, kGradients, kAveraging, kEvaluation };
inline constexpr int kPurposes = 4;
std::string_view purpose_word(Purpose purpose);

// Copies of weights on their way to an evaluation are part of it.
inline bool is_evaluation(const Work& work) {
  return work.kind == WorkKind::kEvaluate || work.lane == Lane::kEvaluation;
}

Purpose purpose_of(const Work& work);

struct PurposeBytes {
  int64_t activations = 0;
  int64_t gradients = 0;
  int64_t averaging = 0;
  int64_t evaluation = 0;
  int64_t copies = 0;  // of `evaluation`: weights that replicas send each other

  void add(const WorkRecord& record);
  PurposeBytes& operator+=(const PurposeBytes& other);
  bool operator==(const PurposeBytes&) const = default;
  int64_t total() const { return activations + gradients + averaging + evaluation; }
};

}  // namespace leeway
