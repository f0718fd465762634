// What windows and tables need to know about all the work of a run, gathered piece by piece: a log
// of any length is read without keeping its pieces.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/stage_table.h"
#include "report/update_range.h"
#include "report/work_history.h"

namespace leeway {

struct WorkSurvey {
  // The time of an update's pieces. `own` leaves out evaluations and work for others, which run
  // beside later updates.
  struct UpdateSpan {
    TimeSpan all;
    std::optional<TimeSpan> own;
    bool has_backwards = false;
  };

  TimeSpan span;             // from the first begin to the last end
  int64_t first_update = 0;  // of the recorded training
  int64_t last_update = 0;   //
  int64_t made_by_all = 0;   // updates made by every worker
  int64_t made_by_any = 0;   // updates made by the worker furthest ahead
  size_t records = 0;        // all pieces
  size_t longest_lane = 1;   // pieces in the fullest row; those of rounds are short
  // With the times in which the log has all that the worker did; none: in all of them.
  std::map<WorkerId, std::optional<std::vector<TimeSpan>>> workers;
  std::map<int64_t, UpdateSpan> updates;  // those with work
  std::vector<UpdateRange> stretches;     // of updates whose work is logged; one if all is
  std::set<int64_t> disturbed;            // with other work than training, or filling the pipeline
  std::vector<StageRow> rows;             // one per stage, all replicas together; nothing drawn
  bool partial = false;                   // the log leaves out work by design (run.log)
  std::string logged = {};                // if partial: the updates whose work it has
  bool cut = false;                       // the log ended in an incomplete line
  bool has_ticks = false;                 // the log is that of one process of several

  int64_t replicas() const;
  int64_t stages() const;
};

class WorkSurveyor {
 public:
  // In the log's order. `stretch`: LoggedStretches::place(); what is outside only counts as a
  // piece.
  void add(const WorkRecord& record, std::optional<size_t> stretch);
  void add_flush(int64_t update) { flushes_.insert(update); }
  // An update that every worker has made.
  void updated(int64_t update) { made_ = std::max(made_, update); }
  int64_t made() const { return made_; }
  bool empty() const { return survey_.records == 0; }
  WorkSurvey finish(bool partial) &&;  // must not be empty

 private:
  // Of one stretch or session of a worker, from its first backward on. A log has pieces in the
  // order in which they ended, which for one worker is the order in which they began, or nearly so:
  // the latest few wait until they are in order.
  class Busy {
   public:
    void add(const WorkRecord& record);
    BusyTime time();

   private:
    struct Piece {
      WorkTimes times;
      WorkKind kind;
    };
    void take(const Piece& piece);

    std::deque<Piece> waiting_;  // by begin
    bool warm_ = false;
    Nanos begin_;
    Nanos end_;    // of the last piece of training
    Nanos until_;  // of the last piece
    double busy_ = 0;
    double busy_at_end_ = 0;
  };
  struct Delays {
    int64_t count = 0;
    double sum = 0;
  };
  struct Row {  // of one worker
    StageRow measured;
    Busy busy;
    size_t stretch = 0;
    std::vector<TimeSpan> covered;  // one per stretch
    size_t pieces = 0;
    int64_t running = 0;  // the newest update so far
    int64_t made = 0;
    std::map<int64_t, Delays> delays;  // by updates since the last flush point
  };

  void count(Row& row, const WorkRecord& record);
  std::vector<UpdateRange> stretches(bool partial) const;

  WorkSurvey survey_;
  std::map<WorkerId, Row> rows_;
  std::set<int64_t> flushes_ = {0};
  std::optional<UpdateRange> all_;
  std::optional<UpdateRange> own_;  // without work for rounds
  int64_t made_ = 0;
};

WorkSurvey survey_of(const WorkHistory& history);

}  // namespace leeway
