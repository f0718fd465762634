// A member's side of rounds: which round is next, which merges are due, and what to do about
// answers that do not come. Round numbers are common to all replicas. A worker that has fallen
// behind joins the newest round it has heard of; one that is a whole cycle behind follows for a
// cycle: it merges means without contributing to them, and then counts again.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/held.h"
#include "worker/lane.h"
#include "worker/message.h"

namespace leeway {

class RoundMember {
 public:
  RoundMember(const LanePlan& plan, StageId stage, int64_t updates_done, int64_t next_round);

  // An answer; one that is no longer needed is dropped.
  void deliver(Message message);
  // Some worker has taken part in this round.
  void heard_of(int64_t round);
  int64_t newest_heard() const { return newest_heard_; }

  // Whether a round that has not begun yet belongs to update `update`.
  bool contributes_at(int64_t update) const;
  int64_t next_round() const;
  // Whether a recorded contribution is possible at all: rounds and updates only go up.
  bool can_contribute(int64_t round, int64_t update) const {
    return round > last_round_ && update > last_update_;
  }
  bool follows() const;  // takes part in the next round with weight zero

  // Guard's factor on the interval. What this worker wants goes out with its parts; what it uses
  // comes back in the newest answer, so that all replicas stretch together.
  int64_t stretch_wanted() const { return stretch_wanted_; }
  int64_t stretch() const { return stretch_; }

  struct Due {
    int64_t round = 0;
    int64_t chunk = 0;
    int64_t lag_backwards = 0;  // since this worker's part was sent; 0 if none was sent
    bool sent = false;          // whether this worker sent its part
    bool arrived = false;
  };
  // The next merge after so many backwards. With a fixed lag a round is due that many after it was
  // sent; at a flush point every round in flight is due.
  std::optional<Due> merge_due(int64_t backwards_done, bool flush) const;
  const Message& answer(int64_t round, int64_t chunk) const;
  bool has_answer(int64_t round, int64_t chunk) const { return answers_.contains({round, chunk}); }

  // The round began at `update`; without `sent` this worker's part has no weight.
  void contributed(int64_t round, int64_t update, bool sent);
  void merged(int64_t round, int64_t chunk, double lag_updates);

  // The rounds to give up because they are too old when `next_round` begins; all rounds in flight.
  std::vector<int64_t> stale(int64_t next_round) const;
  std::vector<int64_t> in_flight() const;
  // Rounds in flight with a chunk that is not merged, and that has another owner by the table
  // `after` than by `before`: its answer may never come. Whether it has arrived must not matter,
  // because a replay hears of it earlier.
  std::vector<int64_t> orphaned(const Membership& before, const Membership& after) const;
  void forget(int64_t round);
  void forget_orphan(int64_t round);  // and an answer that comes all the same is dropped
  const std::set<int64_t>& orphans() const { return orphans_; }  // that were forgotten of late
  // It comes back with a state that may be old: after `updates` updates it joins the newest round
  // that it hears of, and follows for a cycle.
  void restart(int64_t updates, int64_t next_round);
  void flush();  // drops all rounds in flight: their answers are no longer wanted

  // For a checkpoint: the round after the last one that this worker took part in.
  int64_t rounds_begun() const { return last_round_ + 1; }
  // Chunks whose answer never came, or came too late; rounds that a flush point cut off.
  int64_t missed() const { return missed_; }
  int64_t dropped() const { return dropped_; }
  void add_to(Held& held) const {
    held.rounds += std::ssize(flights_);
    held.answers += std::ssize(answers_);
  }

 private:
  struct Flight {
    int64_t update = 0;        // when it was sent
    std::vector<bool> merged;  // by chunk
  };
  int64_t lag_backwards(const Flight& flight, int64_t backwards_done) const {
    return backwards_done - flight.update * plan_.update_every;
  }
  void check_bounds() const;
  void take_stretch(int64_t round, int64_t stretch);

  // Limits on memory: rounds this old are given up, and answers of at most this many rounds are
  // kept for a worker that stands still.
  static constexpr int64_t kFlightsMax = 64;
  static constexpr int64_t kAnswersMax = 256;
  static constexpr int64_t kStretchMax = 1000;
  // Replicas of one speed are rarely more than this many rounds apart.
  static constexpr int64_t kSlack = 2;

  int64_t chunks() const { return plan_.chunks(stage_); }

  LanePlan plan_;
  StageId stage_;
  int64_t last_update_;        // at which a round began
  int64_t last_round_;         // in which this worker took part
  int64_t newest_heard_;       // the newest round it has heard of
  int64_t answered_ = -1;      // the newest round with an answer
  int64_t wanted_from_ = 0;    // answers of earlier rounds are dropped
  int64_t follow_until_ = -1;  // follows in rounds before this one
  bool newcomer_ = false;      // it has restarted, and has not followed for a cycle yet
  double recent_lag_ = 0;
  int64_t stretch_wanted_ = 1;
  int64_t stretch_ = 1;
  int64_t stretch_round_ = -1;                              // the answer that it came with
  std::map<int64_t, Flight> flights_;                       // by round
  std::set<int64_t> orphans_;                               // rounds that were forgotten
  std::set<std::pair<int64_t, int64_t>> merged_;            // recent rounds, and their chunks
  std::map<std::pair<int64_t, int64_t>, Message> answers_;  // by round and chunk
  int64_t missed_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace leeway
