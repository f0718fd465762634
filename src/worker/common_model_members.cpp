// A worker's part in a common model where members come and go: chunks that move, and a replica that
// restarts.
#include <algorithm>
#include <utility>

#include "worker/common_model.h"

namespace leeway {

// By a table that this worker has not heard of, any chunk may have had another owner for a while.
std::vector<int64_t> CommonModel::moved(const Membership& after) const {
  const bool skips = after.number() > table_.number() + 1;
  std::vector<int64_t> found;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    const ReplicaId now = owner(chunk, after);
    const bool another = now != owner(chunk, table_) || after.epoch(now) != table_.epoch(now);
    if (skips || another) found.push_back(chunk);
  }
  return found;
}

// A residual belongs to the answers of one owner: another one begins without.
void CommonModel::run_adoption(const Membership& table) {
  if (compute_ == nullptr) return;
  for (const int64_t chunk : moved(table)) {
    compute_->averaging().write_off_residual(lane_.lane, chunk);
  }
}

// Whoever owns a chunk hears how far this worker is, by every table.
void CommonModel::finish_adoption(const Membership& table, const std::vector<int64_t>& have,
                                  std::vector<Message>& sent) {
  const std::vector<int64_t> elsewhere = moved(table);
  member_.adopt(elsewhere, have);
  table_ = table;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    const bool another = std::ranges::find(elsewhere, chunk) != elsewhere.end();
    owners_[static_cast<size_t>(chunk)].adopt(table, another);
    if (another && owners_[static_cast<size_t>(chunk)].owns()) ++taken_over_;
    asked_[static_cast<size_t>(chunk)] = {};
  }
  tell_positions(sent);
  std::erase_if(asks_, [&](const Ask& ask) { return !table.has(ask.replica); });
  nudged_ = member_.ends();
}

void CommonModel::tell_positions(std::vector<Message>& sent) {
  if (!table_.has(id_.replica)) return;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    post(contribution(work(WorkKind::kContribute, 0, contributions(), chunk)), sent);
  }
}

// It has the model of another one, and no steps beyond it.
void CommonModel::restart(const Membership& table, int64_t updates,
                          const std::vector<ChunkPosition>& chunks, std::vector<Message>& sent) {
  table_ = table;
  // That another incarnation of this replica may have used.
  const int64_t newest = std::max(updates, newest_counted(chunks, id_.replica));
  member_ = CommonMember(lane_, id_,
                         {.updates = updates,
                          .contributions = newest + kNumbersApart * (1 + table.epoch(id_.replica)),
                          .chunks = chunks});
  owners_.clear();
  for (int64_t chunk = 0; chunk < this->chunks(); ++chunk) {
    owners_.emplace_back(lane_, id_.replica, chunk, table_);
    if (owners_.back().owns()) ++taken_over_;
  }
  asks_.clear();
  asked_.assign(asked_.size(), {});
  mended_.clear();
  nudged_ = reminded_ = tells_ = false;
  nudges_ = 0;
  tell_positions(sent);
}

}  // namespace leeway
