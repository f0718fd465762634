// The run as a whole, as the second passive state machine with four verbs. Workers report to it; it
// alone drives the recorder, and decides who takes part, where a session stops, and when it is
// over. Training never waits for it: workers go on without a coordinator, and one that is started
// again learns from them where the run is.
//
//   deliver   may check a message and file or refuse it    may not decide, record, send
//   next      may look, and name the one thing to do now   may not change anything
//   run       may tell the recorder                        may not send
//   finish    may count, decide and send orders            may not record
//
// Orders may be lost or come twice: they are repeated until reports show that they have arrived.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "worker/outbox.h"
#include "worker/refused_messages.h"
#include "worker/run_plan.h"

namespace leeway {

class Coordinator {
 public:
  enum class Start { kFresh, kAgain };  // kAgain: the run has begun under another coordinator

  // Plan and recorder must outlive it.
  Coordinator(const RunPlan& plan, Recorder& recorder, Start start = Start::kFresh);

  enum class Errand {
    kRecord,  // the oldest report that is not recorded yet
    kOrders,  // tell workers what they do not know yet
  };
  void deliver(const Message& message);
  std::optional<Errand> next() const;
  void run(Errand errand);
  void finish(Errand errand, Outbox& outbox);

  // Every worker has been told that the session is over.
  bool over() const { return over_ && !orders_due_; }
  bool abandoned() const { return abandoned_; }
  const Membership& table() const { return table_; }
  int64_t refused() const { return refusals_.total(); }

 private:
  // What it knows about a worker.
  struct Seat {
    bool known = false;       // this coordinator knows by which table it goes
    int64_t incarnation = 0;  // how often this place was filled again
    int64_t next_report = 1;  // number
    int64_t updates = 0;
    bool finished = false;
    bool lost = false;
    bool gap = false;         // reports are missing
    int64_t table = 0;        // the newest that it is known to go by
    int64_t ends = 0;         // the stop that it is known to have heard of
    int64_t decided_end = 0;  // stage 0: where its replica stops; 0: not known
    // While its replica is not in the table:
    bool joins = false;                      // it came to fill the place, and
    bool loaded = false;                     // has a state
    std::optional<int64_t> idle_after = {};  // it was there before, and stands still after this one
    // What it was told, though that may have been lost:
    int64_t told_table = 0;
    bool told_end = false;
    bool told_over = false;
    bool asked_again = false;
  };
  struct Filed {
    WorkerId from;
    int64_t incarnation = 0;
    int64_t number = 0;
    std::shared_ptr<const Report> report;
  };
  // Something that stage 0 of one replica is asked to name.
  struct Question {
    bool wanted = false;
    std::optional<ReplicaId> asked = {};
    int64_t number = 0;  // the same one, however often it is asked
    int64_t named = 0;   // 0: not yet
  };

  Seat& seat(WorkerId id) { return seats_[plan_.mesh().index(id)]; }
  const Seat& first_of(ReplicaId replica) const { return seat({.replica = replica, .stage = {0}}); }
  const Seat& seat(WorkerId id) const { return seats_[plan_.mesh().index(id)]; }
  std::string_view check(const Message& message) const;
  void file(const Message& message);
  void hear(const Message& message);
  void fill(Seat& seat, int64_t incarnation);

  void record(const Filed& filed);
  void count(const Filed& filed, Outbox& outbox);
  void leave(ReplicaId replica);
  void leave_where_workers_are_missing();
  bool is_back(ReplicaId replica, bool loaded) const;
  void take_back();
  int64_t newest_update() const;
  int64_t next_number() const;
  void adopt(const Membership& table);
  void learn(const Membership& table);
  void finish_seat(Seat& seat);
  std::vector<ReplicaId> ended_before_others() const;
  std::optional<ReplicaId> namer() const;
  bool still_learns() const;
  bool has_to_tell(const Seat& seat) const;
  bool knows_members() const;
  bool all_finished() const;
  bool all_confirmed() const;

  void send_orders(Outbox& outbox);
  void order_end(Outbox& outbox);
  void order_save(Outbox& outbox);
  void tell(size_t at, Outbox& outbox);
  void send(WorkerId to, MessageKind kind, int64_t index, Outbox& outbox, int64_t update = 0) const;

  const RunPlan& plan_;
  Recorder& recorder_;
  std::vector<Seat> seats_;  // replica after replica, stage after stage
  std::deque<Filed> filed_;
  Membership table_;
  Question end_;
  Question save_;
  int64_t newest_question_ = 0;
  int64_t newest_save_ = 0;   // update that was named for all
  int64_t save_to_tell_ = 0;  // one that stage 0 of the others has not been told yet
  bool learns_ = false;       // it has to ask every worker where the run is
  bool stop_asked_ = false;   // by the user
  bool regroup_ = false;      // the session ends so that a replica can come back
  bool told_regroup_ = false;
  bool told_stop_ = false;
  bool roll_due_ = false;    // somebody may have to leave, or be taken back
  bool unrecorded_ = false;  // the table that it has learned
  bool abandoned_ = false;
  bool over_ = false;
  int times_told_over_ = 0;
  bool orders_due_ = false;
  bool ticking_ = false;
  std::vector<ReplicaId> leaving_;  // as soon as there is a turn to record it
  RefusedMessages refusals_;
};

}  // namespace leeway
