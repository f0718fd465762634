#include "dashboard/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

namespace leeway {
namespace {

struct Label {
  std::string_view name;
  std::string value;
};

std::string escaped_label(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (c == '\\' || c == '"') made += '\\';
    if (c == '\n') {
      made += "\\n";
    } else {
      made += c;
    }
  }
  return made;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

class Text {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP leeway_{} {}\n# TYPE leeway_{} {}\n", name, help, name, type);
  }
  void add(const std::string& value, const std::vector<Label>& labels) {
    std::string inside;
    for (const Label& label : labels) {
      inside += fmt::format("{}{}=\"{}\"", inside.empty() ? "" : ",", label.name,
                            escaped_label(label.value));
    }
    text_ += fmt::format("leeway_{}{} {}\n", name_,
                         labels.empty() ? "" : fmt::format("{{{}}}", inside), value);
  }
  void gauge(std::string_view name, std::string_view help, std::optional<double> value) {
    if (!value) return;
    begin(name, "gauge", help);
    add(number_text(*value), {});
  }
  void counter(std::string_view name, std::string_view help, int64_t value) {
    begin(name, "counter", help);
    add(std::to_string(value), {});
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

std::optional<double> newest(const RunData& run, Curve curve) {
  const std::vector<Point> points = run.curve(curve).points();
  if (points.empty()) return std::nullopt;
  return points.back().value;
}

std::optional<double> progress_of(const Headline& headline) {
  if (headline.updates_wanted.value_or(0) <= 0) return std::nullopt;
  return static_cast<double>(headline.updates) / static_cast<double>(*headline.updates_wanted);
}

std::vector<Label> labels_of(const WorkerData& worker) {
  return {{"replica", std::to_string(worker.worker.replica.value)},
          {"stage", std::to_string(worker.worker.stage.value)}};
}

void add_workers(Text& text, const RunData& run) {
  if (run.workers.empty()) return;
  text.begin("busy_share", "gauge",
             "Share of the logged updates a worker was busy, or waited for a core, 0 to 1.");
  for (const WorkerData& worker : run.workers) {
    if (const auto share = worker.busy.share()) text.add(number_text(*share), labels_of(worker));
  }
  text.begin("delay_mean", "gauge", "Delay of a worker's gradients in updates, mean.");
  for (const WorkerData& worker : run.workers) {
    double sum = 0;
    double count = 0;
    for (const auto& [delay, times] : worker.delays.counts()) {
      sum += delay * static_cast<double>(times);
      count += static_cast<double>(times);
    }
    if (count > 0) text.add(number_text(sum / count), labels_of(worker));
  }
}

void add_traffic(Text& text, const Headline& headline) {
  text.begin("bytes_total", "counter", "Bytes sent by workers, by purpose.");
  for (int i = 0; i < kPurposes; ++i) {
    text.add(std::to_string(headline.bytes[static_cast<size_t>(i)]),
             {{"purpose", std::string(purpose_word(static_cast<Purpose>(i)))}});
  }
  if (headline.bytes_allreduce) {
    text.counter("allreduce_bytes_total", "Bytes a gradient all-reduce would have sent.",
                 *headline.bytes_allreduce);
  }
}

}  // namespace

std::string metrics_text(const RunData& run) {
  const Headline& headline = run.headline;
  Text text;
  text.begin("run_info", "gauge", "Always 1; labels give the run's name, version and state.");
  text.add(
      "1",
      {{"run", run.name}, {"version", run.version}, {"state", std::string(state_word(run.state))}});
  text.counter("updates_total", "Updates completed by every worker.", headline.updates);
  text.counter("tokens_total", "Tokens trained on.", headline.tokens);
  text.gauge("seconds", "Duration of the run so far.", headline.seconds);
  text.gauge("train_loss", "Training loss, mean of the last 20 updates, nats per token.",
             headline.train_loss);
  text.gauge("valid_loss", "Latest validation loss, nats per token.", headline.valid_loss);
  text.gauge("learning_rate", "Learning rate of the last update.", headline.learning_rate);
  text.gauge("epochs", "Times the training text was read.", headline.epochs);
  text.gauge("progress", "Updates done over updates wanted, 0 to 1.", progress_of(headline));
  text.gauge("seconds_left", "Time left at the mean speed so far.", headline.seconds_left);
  text.gauge("tokens_per_second", "Speed, mean of the last ten updates.",
             newest(run, Curve::kTokensPerSecond));
  text.gauge("gradient_norm", "Latest gradient norm.", newest(run, Curve::kGradientNorm));
  text.gauge("lag_mean", "Updates between sending a part and merging its mean.", headline.lag_mean);
  text.gauge("consensus",
             "Distance of the replicas from their mean, relative to the norm of the weights.",
             headline.consensus);
  text.gauge("drift", "Latest drift: local steps since a part was sent, root mean square.",
             newest(run, Curve::kDrift));
  text.gauge("correction", "Latest correction by a merge, root mean square.",
             newest(run, Curve::kCorrection));
  add_workers(text, run);
  add_traffic(text, headline);
  return text.take();
}

}  // namespace leeway
