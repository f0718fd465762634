#include "events/traffic.h"

#include <array>

#include "base/check.h"

namespace leeway {

std::string_view purpose_word(Purpose purpose) {
  constexpr std::array<std::string_view, kPurposes> kWords = {"activations", "gradients",
                                                              "averaging", "evaluation"};
  return kWords[static_cast<size_t>(purpose)];
}

Purpose purpose_of(const Work& work) {
  if (is_evaluation(work)) return Purpose::kEvaluation;
  if (is_of_round(work.kind)) return Purpose::kAveraging;
  return work.kind == WorkKind::kForward ? Purpose::kActivations : Purpose::kGradients;
}

void PurposeBytes::add(const WorkRecord& record) {
  switch (purpose_of(record.work)) {
    case Purpose::kActivations:
      activations += record.bytes_sent;
      return;
    case Purpose::kGradients:
      gradients += record.bytes_sent;
      return;
    case Purpose::kAveraging:
      averaging += record.bytes_sent;
      return;
    case Purpose::kEvaluation:
      evaluation += record.bytes_sent;
      return;
  }
  LEEWAY_UNREACHABLE("all purposes are above");
}

}  // namespace leeway
