// A member's side of the common model: what of its own steps is under way, and which answer is
// applied next. A member never waits for another, but with a fixed lag; what it has sent and no
// answer has in it, it knows to be lost, and sends again with its next contribution.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "worker/boundary.h"
#include "worker/chunk_log.h"
#include "worker/held.h"
#include "worker/lane.h"

namespace leeway {

class CommonMember {
 public:
  // Where a session begins.
  struct Start {
    int64_t updates = 0;
    int64_t contributions = 0;               // own
    std::vector<ChunkPosition> chunks = {};  // empty: at the beginning
  };
  CommonMember(const LanePlan& plan, WorkerId worker, const Start& start);

  // An answer.
  void deliver(Message message);

  // At the last update of the run everything is sent, exactly, until nothing is under way or lost;
  // then that is said, and whoever has heard it from all has the final model. Where a session ends
  // before that, only what is under way is waited for.
  enum class Contribution { kNone, kSteps, kWait, kEnd };
  Contribution contribution_due(const Boundary& boundary, bool last) const;
  int64_t next_number() const { return last_number_ + 1; }
  // Whether a chunk can still be sent: of one without an owner, few wait for an answer.
  bool may_send(int64_t chunk) const;

  struct Due {
    int64_t number = 0;  // of the answer
    int64_t chunk = 0;
    int64_t lag_backwards = 0;  // since the newest own part in it was sent; 0: there is none
    bool counts = false;        // something of this worker is in it
    bool whole = false;         // it is the chunk as that answer made it
    bool arrived = false;
  };
  // The next merge after so many backwards. With a fixed lag an own part's answer is due that many
  // after it was sent; at a flush point, all that are under way.
  std::optional<Due> merge_due(int64_t backwards_done, bool flush) const;
  // Whether every member's last contribution is in what was applied.
  bool drained(const ReplicaSet& members) const;

  // What an answer means for this worker's own contributions to the chunk, by number, ascending.
  struct Settled {
    std::vector<int64_t> in;    // the answer has them in it, or may have: nobody knows any more
    std::vector<int64_t> lost;  // no answer ever will
    int64_t unknown = 0;        // how many of those that are in it are not known to be
  };
  Settled settles(const Message& answer) const;

  // `sent`: by chunk; none: that this was the end. `ends`: nothing but what is left comes after it.
  void contributed(int64_t number, int64_t update, int64_t table, const std::vector<bool>& sent,
                   bool ends);
  // `answer`: of this chunk's log. `hash`: as there.
  void merged(const Message& answer, double lag_updates, uint64_t hash);
  // A new table: nobody waits for an answer to what was sent before. `moved`: chunks that have
  // another owner; `have`: by chunk, the answers that count.
  void adopt(const std::vector<int64_t>& moved, const std::vector<int64_t>& have);

  const ChunkLog& log(int64_t chunk) const { return logs_[static_cast<size_t>(chunk)]; }
  // The session goes on, or a new one begins with what was saved: nobody has ended.
  void begin_session();
  bool ends() const { return ends_; }
  bool has_ended() const { return ended_; }
  // The newest contribution of which this chunk is under way, 0: none; and by which table it was
  // sent.
  int64_t newest_under_way(int64_t chunk) const;
  int64_t table_of(int64_t number) const { return flights_.at(number).table; }

  int64_t stretch_wanted() const { return stretch_wanted_; }
  int64_t stretch() const { return stretch_; }
  int64_t lost() const { return lost_; }  // own parts of chunks, sent again
  int64_t unknown() const { return unknown_; }
  // Whether nothing is under way.
  bool is_settled() const { return flights_.empty(); }
  void add_to(Held& held) const;

 private:
  struct Flight {
    int64_t update = 0;  // when it was sent
    int64_t table = 0;   // and by which table
    bool awaited = true;
    std::vector<bool> open;  // by chunk
  };
  Settled settles_whole(const Message& answer) const;
  int64_t lag_backwards(const Flight& flight, int64_t backwards_done) const {
    return backwards_done - flight.update * plan_.update_every;
  }
  bool is_early(const Message& answer, int64_t backwards_done, bool flush) const;
  Due due(int64_t chunk, int64_t backwards_done) const;

  static constexpr int64_t kUnderWayMax = 64;
  static constexpr int64_t kStretchMax = 1000;

  LanePlan plan_;
  ReplicaId replica_;
  int64_t last_update_;       // at which it contributed
  int64_t last_number_ = 0;   // own
  bool ends_ = false;         // it sends what is left, and
  bool lost_at_end_ = false;  // some of that was lost
  bool ended_ = false;        // nothing is left
  double recent_lag_ = 0;
  int64_t stretch_wanted_ = 1;
  int64_t stretch_ = 1;
  std::map<int64_t, Flight> flights_;  // by number
  std::vector<ChunkLog> logs_;         // by chunk
  int64_t lost_ = 0;
  int64_t unknown_ = 0;
};

}  // namespace leeway
