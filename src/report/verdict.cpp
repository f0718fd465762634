#include "report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/human.h"
#include "report/validation_groups.h"

namespace leeway {
namespace {

std::string count_text(int64_t count) {
  return human_count(static_cast<uint64_t>(std::max<int64_t>(0, count)));
}

bool simulated(const RunData& run) { return run.setting("run.driver") == "sim"; }

std::string loss_line(const RunData& run, const RunData& against) {
  const auto& own = run.headline.valid_loss;
  const auto& other = against.headline.valid_loss;
  if (!own || !other) {
    return fmt::format("loss   {} has no validation loss to compare", (own ? against : run).name);
  }
  if (const std::string different = validation_differences(run, against); !different.empty()) {
    return fmt::format(
        "loss   {:.4f} against {:.4f} of {}: not comparable, because validation had a different {}",
        *own, *other, against.name, different);
  }
  const int64_t tokens = run.headline.tokens;
  const int64_t other_tokens = against.headline.tokens;
  // A replica that was away for a while has read less.
  constexpr double kAwayMax = 0.1;
  const auto [fewer, more] = std::minmax(tokens, other_tokens);
  const bool alike = static_cast<double>(fewer) >= (1 - kAwayMax) * static_cast<double>(more);
  const double percent = 100 * (*own / *other - 1);
  std::string distance = std::abs(percent) < 0.05 ? "the same" : fmt::format("{:+.1f} %", percent);
  if (!alike) distance = "not comparable";
  const std::string after = tokens == other_tokens ? std::string("the same")
                                                   : fmt::format("{} and {}", count_text(tokens),
                                                                 count_text(other_tokens));
  return fmt::format("loss   {:.4f} against {:.4f} of {}: {}, after {} tokens", *own, *other,
                     against.name, distance, after);
}

std::string bytes_line(const RunData& run, const RunData& against) {
  const int64_t sent = run.headline.replicas_sent();
  const auto share = run.headline.traffic_share();
  if (!share) return "bytes  one replica: nothing to average";
  std::string line = fmt::format("bytes  {} between replicas, {:.1f} % of an all-reduce's {}",
                                 human_bytes(static_cast<uint64_t>(sent)), 100 * *share,
                                 human_bytes(static_cast<uint64_t>(*run.headline.bytes_allreduce)));
  const int64_t other = against.headline.replicas_sent();
  if (sent == 0 || other <= sent) return line;
  const double times = static_cast<double>(other) / static_cast<double>(sent);
  return line + fmt::format("; {:.1f} times fewer than the {} of {}", times,
                            human_bytes(static_cast<uint64_t>(other)), against.name);
}

// "20 % slower (0.80 times)": the verdict also says what was lost.
std::string faster_text(double times) {
  const double percent = 100 * std::abs(times - 1);
  if (percent < 0.5) return "equally fast";
  return fmt::format("{:.0f} % {} ({:.2f} times)", percent, times < 1 ? "slower" : "faster", times);
}

std::string speed_line(const RunData& run, const RunData& against) {
  const double own = run.headline.tokens_per_second;
  const double other = against.headline.tokens_per_second;
  if (own <= 0 || other <= 0) {
    return fmt::format("speed  of {} is unknown", (own <= 0 ? run : against).name);
  }
  const auto tokens = [](double speed) { return count_text(std::llround(speed)); };
  if (simulated(run) != simulated(against)) {
    const auto clock = [](const RunData& of) { return simulated(of) ? " (simulated)" : ""; };
    return fmt::format("speed  {} tokens/s{} against {}{} of {}: these clocks are not comparable",
                       tokens(own), clock(run), tokens(other), clock(against), against.name);
  }
  std::string line = fmt::format("speed  {} tokens/s against {} of {}: {}", tokens(own),
                                 tokens(other), against.name, faster_text(own / other));
  const int64_t cores = run.cores.cores, other_cores = against.cores.cores;
  if (cores > 0 && other_cores > 0 && cores != other_cores) {
    line += fmt::format(", but on {} and {} cores", cores, other_cores);
  }
  return line;
}

// The run's time at the first evaluation that was no worse than this loss.
double seconds_to(double loss, const std::vector<Point>& evaluations) {
  const auto found = std::ranges::find_if(
      evaluations, [&](const Point& evaluation) { return evaluation.value <= loss; });
  return found == evaluations.end() ? 0 : found->at.seconds;
}

// The run's time when it had made its newest update; none: it is not known.
std::optional<Standing> newest_update(const RunData& run) {
  const std::vector<Point> points = run.curve(Curve::kTrainLoss).points();
  return points.empty() ? std::nullopt : std::optional(points.back().at);
}

// How long both took to their last update, if that is the same one; empty: that cannot be said.
std::string update_line(const RunData& run, const RunData& against) {
  const auto own = newest_update(run), other = newest_update(against);
  const bool comparable = own && other && own->update == other->update && own->seconds > 0 &&
                          simulated(run) == simulated(against);
  if (!comparable) return "";
  return fmt::format("time   to update {}: {} against {} of {}: {}", own->update,
                     human_seconds(own->seconds), human_seconds(other->seconds), against.name,
                     faster_text(other->seconds / own->seconds));
}

// How long both took to a loss that both reached; empty: that cannot be said.
std::string time_line(const RunData& run, const RunData& against) {
  const std::vector<Point> own = run.curve(Curve::kValidLoss).points();
  const std::vector<Point> other = against.curve(Curve::kValidLoss).points();
  if (own.empty() || other.empty() || simulated(run) != simulated(against)) return "";
  if (!validation_differences(run, against).empty()) return "";
  const auto best = [](const std::vector<Point>& points) {
    return std::ranges::min_element(points, {}, &Point::value)->value;
  };
  const double loss = std::max(best(own), best(other));
  const double seconds = seconds_to(loss, own), other_seconds = seconds_to(loss, other);
  if (seconds <= 0 || other_seconds <= 0) return "";
  return fmt::format("time   to loss {:.4f}: {} against {} of {}: {}", loss, human_seconds(seconds),
                     human_seconds(other_seconds), against.name,
                     faster_text(other_seconds / seconds));
}

std::string busy_line(const RunData& run, const RunData& against) {
  const auto text = [](const std::optional<double>& busy) {
    return busy ? fmt::format("{:.0f} %", 100 * *busy) : std::string("unknown");
  };
  const auto time = [](const RunData& of) {
    if (simulated(of)) return std::string("simulated time");
    return of.cores.shared()
               ? fmt::format("the time, waiting for a core included ({})", of.cores.text())
               : std::string("the time");
  };
  const std::string line = fmt::format("busy   {} of {}", text(run.headline.busy), time(run));
  const std::string other = text(against.headline.busy);
  if (time(run) == time(against)) return fmt::format("{}; {} in {}", line, other, against.name);
  return fmt::format("{}; {} of {} in {}: these shares are not comparable", line, other,
                     time(against), against.name);
}

}  // namespace

std::vector<std::string> verdict(const RunData& run, const RunData& against) {
  std::vector<std::string> lines = {loss_line(run, against), speed_line(run, against)};
  for (std::string time : {update_line(run, against), time_line(run, against)}) {
    if (!time.empty()) lines.push_back(std::move(time));
  }
  lines.push_back(bytes_line(run, against));
  lines.push_back(busy_line(run, against));
  return lines;
}

}  // namespace leeway
