#include "events/traffic.h"

#include <array>

namespace leeway {

std::string_view purpose_word(Purpose purpose) {
  constexpr std::array<std::string_view, kPurposes> kWords = {"activations", "gradients",
                                                              "averaging", "evaluation"};
  return kWords[static_cast<size_t>(purpose)];
}

Purpose purpose_of(const Work& work) {
  if (is_evaluation(work)) return Purpose::kEvaluation;
  if (is_of_round(work.kind) || work.kind == WorkKind::kTransfer) return Purpose::kAveraging;
  return work.kind == WorkKind::kForward ? Purpose::kActivations : Purpose::kGradients;
}

void PurposeBytes::add(const WorkRecord& record) {
  const std::array<int64_t*, kPurposes> by_purpose = {&activations, &gradients, &averaging,
                                                      &evaluation};
  *by_purpose[static_cast<size_t>(purpose_of(record.work))] += record.bytes_sent;
  if (record.work.lane == Lane::kEvaluation) copies += record.bytes_sent;
}

PurposeBytes& PurposeBytes::operator+=(const PurposeBytes& other) {
  activations += other.activations;
  gradients += other.gradients;
  averaging += other.averaging;
  evaluation += other.evaluation;
  copies += other.copies;
  return *this;
}

}  // namespace leeway
