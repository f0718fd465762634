#include "report/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "report/text.h"
#include "report/web_files.h"

namespace leeway {
namespace {

constexpr double kWidth = 1200;
constexpr double kRight = 24;  // room for half of the last tick's label
constexpr double kLegend = 30;
constexpr double kHeading = 26;  // above each picture
constexpr double kAxis = 30;     // below each picture
constexpr double kBetweenReplicas = 8;
constexpr double kDigit = 6.2;  // width of one digit in the numbers on boxes
constexpr int kTicks = 10;

double left_margin(bool several_replicas) { return several_replicas ? 132 : 64; }

// Narrower rows for many workers.
struct Rows {
  double pitch;
  double box;
};

Rows rows_for(size_t lanes) {
  if (lanes <= 16) return {28, 22};
  if (lanes <= 32) return {21, 16};
  return {15, 12};
}

template <class... Arguments>
void add(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

std::string worker_text(const WorkerId& worker, bool several_replicas) {
  if (!several_replicas) return fmt::format("stage {}", worker.stage.value);
  return fmt::format("replica {}, stage {}", worker.replica.value, worker.stage.value);
}

std::string several_text(const Box& box) {
  std::string text;
  for (size_t i = 0; i < box.counts.size(); ++i) {
    if (box.counts[i] == 0) continue;
    add(text, "{}{} {}", text.empty() ? "" : ", ", box.counts[i],
        work_kind_word(static_cast<WorkKind>(i)));
  }
  return text;
}

// CSS class: the kind, then what changes its colour.
std::string style_of(const Work& work) {
  const std::string_view word = work_kind_word(work.kind);
  const bool copy = work.lane == Lane::kEvaluation;
  return copy ? fmt::format("{} evaluation", word) : std::string(word);
}

// Round, chunk, replicas and lag.
std::string round_text(const Work& work) {
  if (work.lane == Lane::kEvaluation) {
    const bool mean = work.kind == WorkKind::kReduce && work.replicas.size() > 1;
    return mean ? fmt::format("mean of replicas {} for evaluation", replicas_text(work.replicas))
                : "a copy for evaluation";
  }
  std::string text = fmt::format("round {}", work.index);
  if (work.kind != WorkKind::kContribute) add(text, ", chunk {}", work.chunk);
  if (work.kind == WorkKind::kReduce) {
    add(text, ", of replicas {}", replicas_text(work.replicas));
  } else if (work.kind == WorkKind::kRepeat) {
    add(text, ", for replica {}", replicas_text(work.replicas));
  } else if (work.replicas.empty()) {
    text += ", follows without contributing";
  } else if (work.kind == WorkKind::kMerge) {
    add(text, ", lag {:.4g}", lag_of(work));
  }
  return text;
}

// What identifies this piece: microbatch, batch or round.
std::string piece_text(const Work& work) {
  if (is_of_round(work.kind)) {
    return fmt::format("{}, update {}, version {}", round_text(work), work.update, work.version);
  }
  std::string text;
  if (work.kind == WorkKind::kEvaluate) text = fmt::format("batch {}, ", work.index);
  if (work.kind == WorkKind::kForward || work.kind == WorkKind::kBackward) {
    text = fmt::format("microbatch {}, ", work.index);
  }
  add(text, "update {}, version {}, delay {}", work.update, work.version, work.delay);
  return text;
}

bool has_index(WorkKind kind) { return kind != WorkKind::kUpdate && kind != WorkKind::kSave; }

// The `title` of a box in a file; on a page the script makes it from the numbers.
std::string box_title(const Box& box) {
  const std::string took = time_text(box.span.length());
  if (box.record == nullptr) {
    return fmt::format("{} in {}, busy {:.0f} %", several_text(box), took, box.share() * 100.0);
  }
  const Work& work = box.record->work;
  return fmt::format("{}, {}, {}, {} bytes", work_kind_word(work.kind), piece_text(work), took,
                     box.record->bytes_sent);
}

class SvgWriter {
 public:
  SvgWriter(const Drawing& drawing, SvgUse use) : drawing_(drawing), use_(use) {
    const auto& lanes = drawing.pictures.front().lanes;
    several_replicas_ = lanes.back().worker.replica.value > 0 || drawing.lanes_left_out > 0;
    left_ = left_margin(several_replicas_);
    rows_ = rows_for(lanes.size());
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (i > 0 && lanes[i].worker.replica != lanes[i - 1].worker.replica) {
        plot_height_ += kBetweenReplicas;
      }
      lane_tops_.push_back(plot_height_);
      plot_height_ += rows_.pitch;
    }
  }

  std::string write(std::string_view title) {
    const bool file = use_ == SvgUse::kFile;
    double y = file ? 50 : 0;
    std::string body;
    add_legend(body, y);
    y += kLegend;
    for (const Picture& picture : drawing_.pictures) {
      add_picture(body, picture, y);
      y += kHeading + plot_height_ + kAxis;
    }
    std::string out;
    add(out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" viewBox=\"0 0 {} {}\" "
        "role=\"img\" aria-label=\"{}\"{}>\n<style>{}</style>\n",
        kWidth, number_text(y), escaped(title),
        file ? fmt::format(" width=\"{}\" height=\"{}\"", kWidth, number_text(y)) : "",
        kTimelineStyle);
    if (file) {
      add(out, "<rect class=\"paper\" width=\"{}\" height=\"{}\"/>\n", kWidth, number_text(y));
      add(out, "<text class=\"title\" x=\"12\" y=\"22\">{}</text>\n", escaped(title));
      add(out, "<text class=\"small\" x=\"12\" y=\"42\">{}</text>\n", escaped(kHowToRead));
    }
    return out + body + "</svg>\n";
  }

 private:
  void add_legend(std::string& out, double y) const {
    double x = left_;
    out += "<g class=\"legend\">\n";
    const auto entry = [&](std::string_view style, std::string_view words) {
      add(out, "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"16\" height=\"12\"/>", style,
          number_text(x), number_text(y + 8));
      add(out, "<text x=\"{}\" y=\"{}\">{}</text>\n", number_text(x + 22), number_text(y + 18),
          words);
      x += 22 + 6.6 * static_cast<double>(words.size()) + 18;
    };
    for (size_t i = 0; i < drawing_.kinds.size(); ++i) {
      const auto word = work_kind_word(static_cast<WorkKind>(i));
      if (drawing_.kinds[i]) entry(fmt::format("key {}", word), word);
    }
    if (drawing_.merged > 0) entry("key several", "several (height: share of time)");
    entry("key row", "waits");
    if (has_unlogged()) entry("key unlogged", "not logged");
    out += "</g>\n";
  }

  void add_picture(std::string& out, const Picture& picture, double y) const {
    const TimeSpan& span = picture.window.span;
    add(out,
        "<g class=\"picture\" transform=\"translate(0,{})\" data-begin=\"{}\" data-end=\"{}\">\n",
        number_text(y), span.begin.count, span.end.count);
    add(out, "<text class=\"heading\" x=\"{}\" y=\"17\">{}</text>\n", number_text(left_),
        escaped(describe(picture.window)));
    for (size_t i = 0; i < picture.lanes.size(); ++i) {
      add(out, "<text class=\"worker\" x=\"{}\" y=\"{}\">{}</text>\n", number_text(left_ - 10),
          number_text(kHeading + lane_tops_[i] + rows_.pitch / 2 + 4),
          worker_text(picture.lanes[i].worker, several_replicas_));
    }
    // An inner svg clips what the page's script moves beyond its edges.
    add(out, "<svg class=\"plot\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">\n",
        number_text(left_), number_text(kHeading), number_text(plot_width()),
        number_text(plot_height_));
    add_plot(out, picture);
    out += "</svg>\n";
    add(out, "<g class=\"axis\" transform=\"translate({},{})\">", number_text(left_),
        number_text(kHeading + plot_height_ + 14));
    for (const Tick& tick : ticks(span, kTicks)) {
      add(out, "<text x=\"{}\">{}</text>", number_text(x_of(tick.time, span)), tick.label);
    }
    out += "</g>\n</g>\n";
  }

  void add_plot(std::string& out, const Picture& picture) const {
    const double gap = (rows_.pitch - rows_.box) / 2;
    for (const double top : lane_tops_) {
      add(out, "<rect class=\"row\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
          number_text(top + gap), number_text(plot_width()), number_text(rows_.box));
    }
    out += "<g class=\"grid\">";
    for (const Tick& tick : ticks(picture.window.span, kTicks)) {
      add(out, "<path d=\"M{} 0V{}\"/>", number_text(x_of(tick.time, picture.window.span)),
          number_text(plot_height_));
    }
    out += "</g>\n<g class=\"boxes\">\n";
    for (size_t i = 0; i < picture.lanes.size(); ++i) {
      for (const TimeSpan& span : picture.lanes[i].unlogged) {
        add_unlogged(out, span, picture.window.span, lane_tops_[i] + gap);
      }
    }
    for (size_t i = 0; i < picture.lanes.size(); ++i) {
      const DrawnLane& lane = picture.lanes[i];
      add(out, "<g class=\"lane\" transform=\"translate(0,{})\" data-worker=\"{}\">\n",
          number_text(lane_tops_[i] + gap), worker_text(lane.worker, several_replicas_));
      for (const Box& box : lane.boxes) add_box(out, box, picture.window.span);
      out += "</g>\n";
    }
    out += "</g>\n<g class=\"numbers\">";
    for (size_t i = 0; i < picture.lanes.size(); ++i) {
      add_numbers(out, picture.lanes[i], picture.window.span, lane_tops_[i] + rows_.pitch / 2 + 4);
    }
    out += "</g>\n";
  }

  bool has_unlogged() const {
    for (const Picture& picture : drawing_.pictures) {
      for (const DrawnLane& lane : picture.lanes) {
        if (!lane.unlogged.empty()) return true;
      }
    }
    return false;
  }

  void add_unlogged(std::string& out, const TimeSpan& span, const TimeSpan& window,
                    double y) const {
    const double x = x_of(span.begin, window);
    add(out, "<rect class=\"unlogged\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
        number_text(x), number_text(y), number_text(x_of(span.end, window) - x),
        number_text(rows_.box));
  }

  void add_box(std::string& out, const Box& box, const TimeSpan& window) const {
    // A piece that took no time is a hairline, which the page can zoom.
    constexpr double kLeast = 0.05;
    const double x = x_of(box.span.begin, window);
    const double width = std::max(x_of(box.span.end, window) - x, kLeast);
    const bool several = box.record == nullptr;
    // Evaluations are less tall than training, so that they differ by more than colour. A box for
    // several pieces stands on the row's lower edge, as tall as the share of time they fill.
    const bool low = !several && is_evaluation(box.record->work);
    const double height = rows_.box * (several ? box.share() : low ? 0.6 : 1.0);
    const double y = several ? rows_.box - height : (rows_.box - height) / 2;
    add(out, "<rect class=\"{}\" x=\"{}\" width=\"{}\" height=\"{}\"",
        several ? "several" : style_of(box.record->work), number_text(x), number_text(width),
        number_text(height));
    if (y > 0) add(out, " y=\"{}\"", number_text(y));
    if (use_ == SvgUse::kFile) {
      add(out, "><title>{}</title></rect>\n", box_title(box));
    } else if (several) {
      add(out, " data-several=\"{}\" data-share=\"{}\"/>\n", several_text(box),
          number_text(box.share()));
    } else {
      const Work& work = box.record->work;
      // Microbatch, update, version, delay, bytes, begin and duration in nanoseconds.
      add(out, " data-w=\"{} {} {} {} {} {} {}\"", work.index, work.update, work.version,
          work.delay, box.record->bytes_sent, box.record->times.begin.count,
          (box.record->times.end - box.record->times.begin).count);
      if (is_of_round(work.kind)) add(out, " data-round=\"{}\"", round_text(work));
      out += "/>\n";
    }
  }

  void add_numbers(std::string& out, const DrawnLane& lane, const TimeSpan& window,
                   double y) const {
    for (const Box& box : lane.boxes) {
      if (box.record == nullptr || !has_index(box.record->work.kind)) continue;
      const std::string text = fmt::format("{}", box.record->work.index);
      const double x = x_of(box.span.begin, window);
      const double width = x_of(box.span.end, window) - x;
      if (width < kDigit * static_cast<double>(text.size()) + 3) continue;
      add(out, "<text class=\"on-{}\" x=\"{}\" y=\"{}\">{}</text>\n",
          work_kind_word(shown_kind(box.record->work)), number_text(x + width / 2), number_text(y),
          text);
    }
  }

  double plot_width() const { return kWidth - left_ - kRight; }
  double x_of(Nanos time, const TimeSpan& window) const {
    return static_cast<double>((time - window.begin).count) /
           static_cast<double>(window.length().count) * plot_width();
  }

  const Drawing& drawing_;
  SvgUse use_;
  bool several_replicas_ = false;
  double left_ = 0;
  Rows rows_{};
  std::vector<double> lane_tops_;
  double plot_height_ = 0;
};

}  // namespace

std::string timeline_svg(const Drawing& drawing, std::string_view title, SvgUse use) {
  return SvgWriter(drawing, use).write(title);
}

double timeline_pixels(const WorkHistory& history) {
  return kWidth - left_margin(history.replicas() > 1) - kRight;
}

}  // namespace leeway
