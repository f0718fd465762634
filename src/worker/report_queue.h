// A worker's reports on their way to the coordinator. They are numbered, kept until they are known
// to be recorded, and sent again when they are asked for: a coordinator that was away misses
// nothing, and training never waits for it. Memory is bounded: without a coordinator the oldest
// reports are forgotten in the end, and a saved state makes room for a newer one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "worker/report.h"

namespace leeway {

class ReportQueue {
 public:
  struct Numbered {
    int64_t number = 0;
    std::shared_ptr<const Report> report;
  };

  // The first report has number 1.
  const Numbered& add(Report report) {
    if (std::holds_alternative<StageState>(report)) {
      for (Numbered& kept : kept_) {
        if (std::holds_alternative<StageState>(*kept.report))
          kept.report = std::make_shared<const Report>(std::monostate{});
      }
    }
    kept_.push_back({++newest_, std::make_shared<const Report>(std::move(report))});
    if (kept_.size() > kKeptMax) kept_.pop_front();
    return kept_.back();
  }
  // Reports up to this number are recorded.
  void heard(int64_t number) {
    while (!kept_.empty() && kept_.front().number <= number) kept_.pop_front();
  }
  const std::deque<Numbered>& kept() const { return kept_; }
  int64_t oldest() const { return kept_.empty() ? newest_ + 1 : kept_.front().number; }

 private:
  static constexpr size_t kKeptMax = 256;

  std::deque<Numbered> kept_;
  int64_t newest_ = 0;
};

}  // namespace leeway
