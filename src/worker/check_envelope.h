// What workers and the coordinator ask of every message before they look at what it says.
#pragma once

#include <algorithm>
#include <string_view>

#include "worker/membership.h"
#include "worker/message.h"
#include "worker/run_plan.h"

namespace leeway {

// Tables are numbered by the coordinator, one by one: nobody has seen this many.
inline constexpr int64_t kTablesMax = int64_t{1} << 48;

// Whether a table that somebody sent can be one of this run.
inline bool fits(const Membership& table, const RunPlan& plan) {
  if (table.number() < 0 || table.number() > kTablesMax) return false;
  const ReplicaSet all = ReplicaSet::first(plan.replicas);
  const bool known = std::ranges::all_of(table.restarts(), [&](const auto& restart) {
    const auto& [replica, back] = restart;
    return replica.value >= 0 && replica.value < plan.replicas && back.epoch <= table.number();
  });
  return known && all.has_all(table.members()) &&
         std::ranges::all_of(table.incarnations(), [&](const auto& incarnation) {
           return plan.mesh().contains(incarnation.first);
         });
}

// Why a message is not for this run, or not from one who is part of it; empty: it is.
inline std::string_view check_envelope(const Message& message, const RunPlan& plan) {
  const Envelope& envelope = message.envelope;
  if (envelope.run != plan.run) return "of another run";
  if (envelope.recipe != plan.recipe) return "of another recipe";
  const int64_t updates = plan.updates_max();
  if (envelope.ends > updates || envelope.saves > updates) return "an update after the end";
  if (envelope.table < 0 || envelope.table > kTablesMax) return "a table that there is not";
  if (message.from == kCoordinator) return "";
  return plan.mesh().contains(message.from) ? "" : "from a worker that there is not";
}

}  // namespace leeway
