// The timeline of a run that may be too long to be kept: how it began, and how it goes of late.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "events/work.h"

namespace leeway {

class PieceKeeper {
 public:
  // Keeps half of `pieces_max` from the start of the run and as many of the latest.
  explicit PieceKeeper(size_t pieces_max) : half_(pieces_max / 2) {}

  void add(const WorkRecord& record, size_t session);
  // SVG, or nothing where there is no work; says in `notes` what it leaves out.
  std::string svg(size_t boxes_max, std::vector<std::string>& notes) const;

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
