// Turns the lines of an event log, one by one, into what a report shows. Memory does not grow with
// the run, so a run in progress can be followed.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "events/event.h"
#include "events/log_level.h"
#include "report/participation.h"
#include "report/run_data.h"
#include "report/run_timeline.h"

namespace leeway {

struct RunLimits {
  size_t points_max = 2000;   // per curve
  size_t pieces_max = 20000;  // pieces of work kept for the timeline
  size_t boxes_max = 10000;   // boxes in the timeline
  size_t changes_max = 500;   // of who takes part
};

class RunReader {
 public:
  // `resumes`: all `resumed` lines of the log, in order. Work that a resumed session repeated
  // counts once.
  RunReader(const RunLimits& limits, std::vector<Event> resumes, std::optional<Lane> weights_lane);

  // A line without its newline. An error says what is wrong with it and changes nothing.
  Status add(std::string_view line);
  // Everything but name, configuration and summary. Draws the timeline at each call.
  RunData data() const;
  int64_t parameters() const { return parameters_; }
  // What earlier numbers of replicas add to the bytes of an all-reduce.
  int64_t shifted_allreduce_bytes() const { return shifted_allreduce_bytes_; }
  // `rate`: optimizer.rate of the last session. Earlier sessions may have had another one.
  Series learning_rate(double rate) const;
  // `replicas`: mesh.replicas of the last session.
  std::vector<ReplicaUpdates> members(int64_t replicas) const {
    return participation_.up_to(now_.update, replicas);
  }
  // How long one update takes, mean of this session; none: no update yet.
  std::optional<double> seconds_per_update() const;

 private:
  struct Tally {  // of one worker; times are of the current session or logged stretch
    WorkerData data;
    Nanos begin = {};
    Nanos end = {};
    Nanos busy = {};
    Nanos busy_at_end = {};
    std::optional<size_t> stretch = {};  // none: no piece yet
    BusyTime total() const;
    void begin_stretch(size_t number, Nanos at);
  };
  struct Mean {
    double sum = 0;
    int64_t count = 0;
    void add(double value) {
      sum += value;
      ++count;
    }
  };

  // A resumed run may change optimizer.rate: what it was up to this update.
  struct RateChange {
    int64_t update = 0;
    double before = 0;
  };

  bool superseded(const Event& event) const;
  void started(const Event& event);
  void changed(const Event& event);
  void resumed(const Event& event);
  void worked(const Event& event);
  void count_bytes(const WorkRecord& record);
  void take_bytes(const Event& event);
  void count_round(const Event& event, const Work& work);
  void updated(const Event& event);
  Standing standing_of_evaluation(const Event& event) const;
  void evaluated(const Event& event);
  void evaluated_own(const Event& event);
  void happened(std::string text);
  void put(Curve curve, const Standing& at, double value);
  void put_mean(Curve curve, const Standing& at, Mean& mean, bool root);

  RunLimits limits_;
  std::vector<Event> resumes_;
  std::optional<Lane> weights_lane_;
  size_t resumes_seen_ = 0;
  LoggedStretches stretches_;
  bool updates_have_bytes_ = false;
  Participation participation_;
  bool has_ticks_ = false;  // the log is that of one process of several

  RunData data_;
  int64_t parameters_ = 0;
  int64_t shifted_allreduce_bytes_ = 0;
  Standing now_;
  std::optional<Standing> session_begin_;  // the first update of this session
  std::vector<RateChange> rate_changes_;
  double tokens_per_update_ = 0;
  std::map<WorkerId, Tally> tallies_;
  PieceKeeper pieces_;
  std::deque<double> recent_losses_;
  std::deque<Standing> recent_;  // the last updates, and the one before them
  double spread_ = 0;            // decaying sums of squares
  double scale_ = 0;
  Mean drift_, correction_, lag_, lag_all_;  // the first three since the last update
  int64_t unreadable_ = 0;
  std::string why_unreadable_;
};

}  // namespace leeway
