// The processes that `leeway launch` starts on this machine, watched: one that ends or falls silent
// while the run goes on is replaced, and none outlives this process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/child.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"

namespace leeway {

struct ChildrenOptions {
  Path program;
  std::vector<std::vector<std::string>> words;  // of each: argv without the program and --name
  Path folder;                                  // what they print goes here
  const Clock& clock;
  std::function<void(const std::string& sentence)> said = {};
  std::function<void(const std::string& name)> ended = {};  // by itself, or killed
};

class Children {
 public:
  explicit Children(ChildrenOptions options) : options_(std::move(options)) {}
  ~Children() { end(); }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void start();
  // From any thread: the one of this name counts as gone. If it still runs, it is killed, and
  // another one, with another name, is started.
  void replace(const std::string& name);
  // From any thread: how many updates the run has made.
  void note_updates(int64_t updates);
  // No child is replaced any more.
  void let_end();
  // Those that still run have a moment to end.
  void end();
  // Why it makes no sense to go on; none: it does.
  std::optional<Error> failure() const;

 private:
  struct Watched {
    std::optional<Child> child;
    std::string name;
    int64_t started = 0;  // how often
    int64_t failed = 0;   // in a row
    Nanos since = {};
    int64_t updates = 0;  // of the run, then
    Path log;
  };
  void watch();
  void start(size_t at);
  void note_end(size_t at, const Child::End& end);
  int64_t updates() const;

  ChildrenOptions options_;
  mutable std::mutex mutex_;
  std::set<std::string> to_replace_;
  bool ends_ = false;
  int64_t updates_ = 0;
  std::optional<Error> failure_;
  std::vector<Watched> watched_;  // of its own thread
  std::thread thread_;
};

}  // namespace leeway
