// What workers and the coordinator ask of every message before they look at what it says.
#pragma once

#include <string_view>

#include "worker/membership.h"
#include "worker/message.h"
#include "worker/run_plan.h"

namespace leeway {

// Why a message is not for this run, or not from one who is part of it; empty: it is.
inline std::string_view check_envelope(const Message& message, const RunPlan& plan) {
  const Envelope& envelope = message.envelope;
  if (envelope.run != plan.run) return "of another run";
  if (envelope.recipe != plan.recipe) return "of another recipe";
  const int64_t updates = plan.updates_max();
  if (envelope.ends > updates || envelope.saves > updates) return "an update after the end";
  if (message.from == kCoordinator) return "";
  return plan.mesh().contains(message.from) ? "" : "from a worker that there is not";
}

}  // namespace leeway
