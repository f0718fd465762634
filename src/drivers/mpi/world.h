// All processes of an MPI job, as this one sees them. One thread makes every call to MPI, from the
// first to the last: it starts MPI, gives turns to whoever has something to send and receive, and
// ends MPI. Only one World in the life of a program.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "drivers/mpi/library.h"

namespace leeway::mpi {

// Whether mpirun or srun started this program, by the environment that it got; `lookup` gives the
// value of a variable or null, as std::getenv does.
bool started_by_mpi(const std::function<const char*(const char* name)>& lookup);

class World {
 public:
  // What a turn found.
  enum class Pace {
    kMoved,     // something was sent or has arrived: there may be more at once
    kUnderWay,  // transfers that MPI works on only while it is called
    kNothing,
  };
  using Job = std::function<void()>;
  using Turn = std::function<Pace()>;

  // Returns when MPI has started in all processes of the job.
  static Result<std::unique_ptr<World>> start();
  // Waits for the other processes to end theirs.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return ranks_.own; }
  int size() const { return ranks_.count; }

  // From any thread: prints the sentence and ends all processes of the job.
  [[noreturn]] void abort(const std::string& sentence);

  // From any thread but MPI's: does the job on that thread, and waits for its end. What it throws
  // ends the whole job, as with a turn.
  void call(const Job& job);
  // From the thread of MPI: from now on `turn` is called again and again, until it is empty.
  void give_turns_to(Turn turn);
  // From any thread: the next turn comes soon.
  void wake();

 private:
  World() = default;
  void work(const std::function<void(Result<Ranks>)>& started);
  void take_turns();
  void add(Job job);
  bool on_thread_of_mpi() const;

  Ranks ranks_;
  Turn turn_;  // used on the thread of MPI
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  bool woken_ = false;
  bool ends_ = false;
  std::thread::id thread_of_mpi_;
  std::thread thread_;
};

}  // namespace leeway::mpi
