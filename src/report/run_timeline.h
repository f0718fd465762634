// The timeline of a run that may be too long to keep in memory: its start and its latest work.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "events/work.h"

namespace leeway {

class PieceKeeper {
 public:
  // Keeps half of `pieces_max` pieces from the start of the run, and as many of the latest.
  explicit PieceKeeper(size_t pieces_max) : half_(pieces_max / 2) {}

  void add(const WorkRecord& record, size_t session);
  // SVG, or empty if there is no work; adds to `notes` what it leaves out. `partial`: the log has
  // only some stretches of the run.
  std::string svg(size_t boxes_max, bool partial, std::vector<std::string>& notes) const;

 private:
  struct Piece {
    WorkRecord record;
    size_t session = 0;
  };

  size_t half_;
  size_t dropped_ = 0;
  std::vector<Piece> first_;
  std::deque<Piece> latest_;
};

}  // namespace leeway
