// Which replicas took part in which updates: they can leave a run and come back.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/replica_set.h"
#include "events/event.h"
#include "report/update_range.h"

namespace leeway {

struct ReplicaUpdates {
  ReplicaId replica;
  std::vector<UpdateRange> updates = {};  // ascending; empty: it took part in none
  bool operator==(const ReplicaUpdates&) const = default;
};

// In bounded memory: once replicas have left and returned very often, short stretches are left out.
class Participation {
 public:
  explicit Participation(size_t changes_max);

  // Every event of a log, in its order, without superseded ones. Lines that make no sense change
  // nothing.
  void note(const Event& event);
  // A row for each replica, of updates 1 to `last`; empty if all replicas took part in all of them.
  // `replicas`: how many the last session has.
  std::vector<ReplicaUpdates> up_to(int64_t last, int64_t replicas) const;
  // The longest stretch without a change that was left out, in updates; 0: none was.
  int64_t left_out() const { return left_out_; }

 private:
  struct Change {
    int64_t after = 0;  // the members of the updates after this one
    ReplicaSet members;
  };
  struct Resize {  // a resumed run may have more or fewer replicas
    int64_t update = 0;
    int64_t before = 0;  // replicas up to that update
  };

  void resumed(int64_t update);
  void changed(const Event& event);
  void members(const Event& event);
  void updated(const Event& event);
  size_t place_of(int64_t after) const;
  size_t begin_at(int64_t after);
  void leaves(ReplicaId replica, int64_t after);
  void returns(ReplicaId replica, int64_t after);
  void tidy();

  size_t changes_max_;
  std::vector<Change> changes_;  // ascending; the first is after update 0
  std::vector<Resize> resizes_;
  bool updates_name_members_ = false;  // in this session, where not all took part
  int64_t left_out_ = 0;
};

// "1 to 200, 304 to 600"; of many ranges, the first few and how many more there are.
std::string text_of(const std::vector<UpdateRange>& ranges);
// "replica 1 took part in updates 1 to 200, 304 to 600": those that were away, in one sentence.
// "": none was.
std::string text_of(const std::vector<ReplicaUpdates>& members);

// [{"replica": 1, "updates": [[1, 200], [304, 600]]}, ...]
nlohmann::ordered_json to_json(const std::vector<ReplicaUpdates>& members);

}  // namespace leeway
