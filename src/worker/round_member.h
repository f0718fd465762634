// A contributor's side of rounds: which one is next, what is due to be merged, and what to do about
// answers that do not come. Round numbers are the fleet's: who has fallen behind goes on with the
// newest that it has heard of, and who has fallen behind by a whole cycle follows for one cycle: it
// takes over the means without a say in them, and then counts again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "worker/lane.h"
#include "worker/message.h"

namespace leeway {

class RoundMember {
 public:
  RoundMember(const LanePlan& plan, int64_t updates_done, int64_t next_round);

  // An answer. What is of no use any more is counted and dropped.
  void deliver(Message message);
  // Somebody has taken part in this round.
  void heard_of(int64_t round);

  // Whether update `update` is one that a round belongs to, which has not begun.
  bool contributes_at(int64_t update) const;
  int64_t next_round() const;
  // Whether a recorded contribution is possible at all: rounds and updates only go up.
  bool can_contribute(int64_t round, int64_t update) const {
    return round > last_round_ && update > last_update_;
  }
  bool follows() const;  // the next round: takes part with weight zero

  struct Due {
    int64_t round = 0;
    int64_t chunk = 0;
    int64_t lag = 0;    // updates since this worker's part was sent; 0 where none was
    bool sent = false;  // this worker's part
    bool arrived = false;
  };
  // The next merge at the boundary of an update; fixed lags wait for theirs. At a flush point all
  // that such a lag has under way is due at once.
  std::optional<Due> merge_due(int64_t updates_done, bool flush) const;
  const Message& answer(int64_t round, int64_t chunk) const;
  bool has_answer(int64_t round, int64_t chunk) const { return answers_.contains({round, chunk}); }

  // The round began at `update`; without `sent` this worker has no say in it. Rounds that were
  // skipped are awaited where every answer counts.
  void contributed(int64_t round, int64_t update, bool sent);
  void merged(int64_t round, int64_t chunk, int64_t lag);
  // Answers to ask for again after a merge, each from its owner.
  std::vector<std::pair<int64_t, int64_t>> take_missed(int64_t newest_round);

  // Rounds to give up: those in flight for too long when `next_round` begins, or all of them.
  std::vector<int64_t> stale(int64_t next_round) const;
  std::vector<int64_t> in_flight() const;
  void forget(int64_t round);
  void flush();  // answers to what has been sent so far are no longer wanted, if any are missing

  // For a checkpoint: the round after the last that this worker took part in.
  int64_t rounds_begun() const { return last_round_ + 1; }
  // Chunks whose answer never came, or came too late; rounds that a flush point cut off.
  int64_t missed() const { return missed_; }
  int64_t dropped() const { return dropped_; }

 private:
  struct Flight {
    int64_t update = 0;        // when it was sent
    bool sent = false;         // false: skipped
    std::vector<bool> merged;  // by chunk
    int64_t asked_at = 0;      // round of the newest answer when it was last asked for
  };
  void open(int64_t round, int64_t update, bool sent);
  bool was_merged_ahead(int64_t round, int64_t chunk) const;
  void check_bounds() const;

  // Memory is bounded: a flight older than this many rounds is given up, and so many rounds'
  // answers wait for a worker that stands still.
  static constexpr int64_t kFlightsMax = 64;
  static constexpr int64_t kAnswersMax = 256;
  static constexpr int64_t kAskAfter = 16;  // rounds
  // Replicas of one speed are rarely more than this many rounds apart.
  static constexpr int64_t kSlack = 2;

  LanePlan plan_;
  int64_t last_update_;        // that a round began at
  int64_t last_round_;         // that this worker took part in
  int64_t newest_heard_;       // of
  int64_t answered_ = -1;      // the newest round that is closed
  int64_t wanted_from_ = 0;    // answers of earlier rounds are dropped
  int64_t follow_until_ = -1;  // before this round it follows
  double recent_lag_ = 0;
  int64_t stretch_ = 1;                                     // of the interval
  std::map<int64_t, Flight> flights_;                       // by round
  std::map<std::pair<int64_t, int64_t>, Message> answers_;  // by round and chunk
  // Where every answer counts: chunks merged of rounds that this worker has not got to. It may skip
  // them, and must not ask for those again.
  std::map<int64_t, std::vector<bool>> merged_ahead_;
  int64_t missed_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace leeway
