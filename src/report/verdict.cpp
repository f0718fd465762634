#include "report/verdict.h"

#include <fmt/format.h>

#include <cmath>

namespace leeway {
namespace {

std::string loss_line(const RunData& run, const RunData& against) {
  const auto& own = run.headline.valid_loss;
  const auto& other = against.headline.valid_loss;
  if (!own || !other) {
    return fmt::format("loss   {} has no validation loss to compare", (own ? against : run).name);
  }
  const double percent = 100 * (*own / *other - 1);
  const std::string distance =
      std::abs(percent) < 0.05 ? "the same" : fmt::format("{:+.1f} %", percent);
  const int64_t tokens = run.headline.tokens;
  const int64_t other_tokens = against.headline.tokens;
  const std::string after =
      tokens == other_tokens
          ? "after the same tokens"
          : fmt::format("after {} and {} tokens, so not to be compared", tokens, other_tokens);
  return fmt::format("loss   {:.4f} against {:.4f} of {}: {}, {}", *own, *other, against.name,
                     distance, after);
}

std::string bytes_line(const RunData& run) {
  const auto sent = run.headline.bytes[static_cast<size_t>(Purpose::kAveraging)];
  const auto share = run.headline.traffic_share();
  if (!share) return "bytes  one replica: nothing to average";
  return fmt::format("bytes  {:.1f} MB of averaging, {:.1f} % of an all-reduce's {:.1f} MB",
                     static_cast<double>(sent) / 1e6, 100 * *share,
                     static_cast<double>(*run.headline.bytes_allreduce) / 1e6);
}

std::string busy_line(const RunData& run, const RunData& against) {
  const auto text = [](const std::optional<double>& busy) {
    return busy ? fmt::format("{:.0f} %", 100 * *busy) : std::string("unknown");
  };
  return fmt::format("busy   {} of the time, {} in {}", text(run.headline.busy),
                     text(against.headline.busy), against.name);
}

}  // namespace

std::vector<std::string> verdict(const RunData& run, const RunData& against) {
  return {loss_line(run, against), bytes_line(run), busy_line(run, against)};
}

}  // namespace leeway
