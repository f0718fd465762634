// Work in the Trace Event Format, which Perfetto and chrome://tracing open.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/work_history.h"

namespace leeway {

// Written piece by piece, one per line: a long run has millions. Nothing is there before finish().
class TraceFile {
 public:
  // `workers` in ascending order.
  static Result<TraceFile> create(const Path& path, const std::vector<WorkerId>& workers);

  // In the log's order: a microbatch has gone all its way when stage 0 has done its backward.
  Status add(const WorkRecord& record);
  Result<int64_t> finish();  // returns the number of pieces

 private:
  using Way = std::pair<int64_t, int64_t>;  // replica, microbatch
  struct Stop {                             // a forward or a backward
    WorkerId worker;
    Nanos begin;
  };

  explicit TraceFile(AtomicFile file) : file_(std::move(file)) {}
  template <class... Arguments>
  Status put(fmt::format_string<Arguments...> format, Arguments&&... arguments);
  Status add_arrows(const Way& way, std::vector<Stop>& stops);
  Status flush();

  AtomicFile file_;
  std::string pending_ = R"({"displayTimeUnit":"ms","traceEvents":[)";
  bool first_ = true;
  int64_t pieces_ = 0;
  std::map<Way, std::vector<Stop>> on_their_way_;
};

}  // namespace leeway
