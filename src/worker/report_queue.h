// A worker's reports on their way to the coordinator. They are numbered, kept until they are known
// to be recorded, and sent again when they are asked for: a coordinator that was away misses
// nothing, and training never waits for it. Each says which kept one comes before it, so that one
// that a newer has made needless can be left out. Memory is bounded: where a worker is makes room
// for a newer one, and without a coordinator the oldest reports are forgotten in the end.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <variant>

#include "worker/report.h"

namespace leeway {

class ReportQueue {
 public:
  struct Numbered {
    int64_t number = 0;
    std::shared_ptr<const Report> report;
  };

  // The first report has number 1.
  void add(Report report) {
    if (std::holds_alternative<Present>(report)) drop<Present>();
    kept_.push_back({++newest_, std::make_shared<const Report>(std::move(report))});
    if (kept_.size() > kKeptMax) kept_.pop_front();
  }
  // Reports up to this number are recorded.
  void heard(int64_t number) {
    while (!kept_.empty() && kept_.front().number <= number) kept_.pop_front();
  }
  const std::deque<Numbered>& kept() const { return kept_; }
  // The number of the one that is kept before this one; 0: none.
  int64_t before(size_t at) const { return at == 0 ? 0 : kept_[at - 1].number; }

 private:
  static constexpr size_t kKeptMax = 256;

  template <class Kind>
  void drop() {
    std::erase_if(kept_,
                  [](const Numbered& kept) { return std::holds_alternative<Kind>(*kept.report); });
  }

  std::deque<Numbered> kept_;
  int64_t newest_ = 0;
};

}  // namespace leeway
