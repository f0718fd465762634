#include "drivers/sim/common_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace leeway::sim {
namespace {

uint64_t hash_of(const at::Tensor& payload) {
  if (!payload.defined()) return 0;
  const at::Tensor bytes = payload.cpu().contiguous();
  return hash_bytes({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()});
}

}  // namespace

void CommonChecker::contributed(WorkerId worker, int64_t number, int64_t backwards) {
  constexpr size_t kRemembered = 256;
  auto& sent = contributed_[worker];
  sent.try_emplace(number, backwards);  // it may be sent again
  if (sent.size() > kRemembered) sent.erase(sent.begin());
}

std::optional<int64_t> CommonChecker::lag(WorkerId worker, const Message& answer,
                                          int64_t backwards) const {
  const auto sent = contributed_.find(worker);
  if (sent == contributed_.end()) return std::nullopt;
  int64_t newest = 0;
  for (const PartId& part : answer.parts) {
    if (part.replica == worker.replica) newest = std::max(newest, part.number);
  }
  const auto found = sent->second.find(newest);
  if (found == sent->second.end()) return std::nullopt;
  return backwards - found->second;
}

void CommonChecker::restarted(WorkerId worker) {
  for (auto& [id, chunk] : chunks_) {
    if (id.first != worker.stage) continue;
    chunk.applied.erase(worker.replica);
    for (auto& [number, answers] : chunk.answers) {
      for (Answer& answer : answers) answer.applied_by.remove(worker.replica);
    }
  }
}

std::string CommonChecker::applies(WorkerId worker, const Message& answer,
                                   const ReplicaSet& members) {
  Chunk& chunk = chunks_[{worker.stage, answer.chunk}];
  const auto where = [&](std::string_view wrong) {
    return fmt::format("stage {} chunk {}, answer {} at replica {}: {}", worker.stage.value,
                       answer.chunk, answer.index, worker.replica.value, wrong);
  };
  const auto [last, first_time] = chunk.applied.try_emplace(worker.replica, answer.index);
  const bool next = first_time || answer.index == last->second + 1;
  const bool replaces = answer.whole && (answer.index > last->second || answer.mends);
  if (!next && !replaces) return where("not the next one");
  last->second = answer.index;
  if (answer.whole) return chunk.answers.contains(answer.index) ? "" : where("nobody has made it");
  const Answer given = {.parts = answer.parts,
                        .hash = hash_of(answer.payload),
                        .applied_by = ReplicaSet::of(worker.replica)};
  std::vector<Answer>& known = chunk.answers[answer.index];
  for (Answer& other : known) {
    if (other.is(given)) return other.applied_by.add(worker.replica), "";
    for (const ReplicaId replica : other.applied_by) {
      if (members.contains(replica)) return where("not what another one has applied");
    }
  }
  known.push_back(given);
  for (const PartId& part : answer.parts) {
    const WorkerId sender = {.replica = part.replica, .stage = worker.stage};
    const auto made = contributed_.find(sender);
    if (made == contributed_.end() || part.number > made->second.rbegin()->first) {
      return where("it has something in it that nobody sent");
    }
    const auto [earlier, counts] = chunk.counted.try_emplace(part, answer.index);
    if (!counts) return where(fmt::format("answer {} has that too", earlier->second));
  }
  return "";
}

std::string CommonChecker::ended(const std::vector<WorkerId>& left) const {
  for (const auto& [id, chunk] : chunks_) {
    const int64_t newest = chunk.answers.empty() ? 0 : chunk.answers.rbegin()->first;
    for (const WorkerId worker : left) {
      if (worker.stage != id.first) continue;
      const auto applied = chunk.applied.find(worker.replica);
      const int64_t number = applied == chunk.applied.end() ? 0 : applied->second;
      if (number == newest) continue;
      return fmt::format("stage {} chunk {}: replica {} ends with answer {} of {}", id.first.value,
                         id.second, worker.replica.value, number, newest);
    }
  }
  return "";
}

}  // namespace leeway::sim
