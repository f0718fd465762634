#include "compare/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/human.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

// "12,345"
std::string grouped(int64_t number) {
  if (number < 1000) return fmt::format("{}", number);
  return fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

std::string loss_text(const RateCell& cell) {
  if (!cell.why.empty()) return "failed";
  if (cell.losses.size() == 1) return fmt::format("{:.4f}", cell.mean);
  return fmt::format("{:.4f} ± {:.4f}", cell.mean, cell.half_range);
}

std::vector<std::string> columns_of(const ComparisonPlan& plan) {
  std::vector<std::string> columns = {"variant", "loss",
                                      fmt::format("against {}", plan.comparison.baseline)};
  if (plan.comparison.rates.size() > 1) {
    for (const double rate : plan.comparison.rates) columns.push_back(fmt::format("x{:g}", rate));
  }
  for (const char* name : {"replicas sent", "of all-reduce", "pipeline sent", "busy", "tokens/s"}) {
    columns.emplace_back(name);
  }
  if (plan.comparison.target_loss > 0)
    columns.push_back(fmt::format("to loss {:g}", plan.comparison.target_loss));
  return columns;
}

// A cell as text, and as a page needs it: with the number behind the text, for CSV files.
struct Cell {
  std::string text = {};
  Json page = nullptr;
};

Cell cell_of(std::string text, double value) {
  Json page{{"text", text}, {"value", value}};
  return {std::move(text), std::move(page)};
}

Cell share_cell(double share) { return cell_of(fmt::format("{:.1f} %", 100 * share), share); }

Cell failed_cell(const std::string& why, std::string text) {
  return {std::move(text), {{"failed", why}}};
}

Cell rate_cell(const RateCell& cell) {
  return cell.why.empty() ? cell_of(loss_text(cell), cell.mean) : failed_cell(cell.why, "failed");
}

// The row's loss, or why it failed.
Cell headline(const ComparisonRow& row, bool several_rates) {
  if (!row.best) return failed_cell(row.why(), "failed: " + row.why());
  const RateCell& cell = row.cells[*row.best];
  return cell_of(loss_text(cell) + (several_rates ? fmt::format(" (x{:g})", cell.rate) : ""),
                 cell.mean);
}

bool is_simulated(const PlannedRun& run) {
  return run.recipe.recipe.run.driver == DriverName::kSim;
}

// Simulated seconds and measured seconds must not be divided by each other.
bool same_clock(const ComparisonPlan& plan, const std::string& first, const std::string& second) {
  const auto simulated = [&](const std::string& name) {
    return is_simulated(*std::ranges::find(plan.runs, name, [&](const PlannedRun& run) {
      return plan.comparison.variants[run.variant].name;
    }));
  };
  return simulated(first) == simulated(second);
}

// "240 s (2.57x)": the time, and how many times sooner than the baseline.
Cell target_cell(const ComparisonRow& row, const ComparisonResults& results) {
  const ComparisonPlan& plan = results.plan;
  if (!row.seconds_to_target) {
    const std::string text =
        row.seeds_at_target == 0
            ? "not reached"
            : fmt::format("{} of {} seeds", row.seeds_at_target, plan.seeds.size());
    return {text, text};
  }
  const double seconds = *row.seconds_to_target;
  std::string text = fmt::format("{:.4g} s", seconds);
  const std::string& baseline = plan.comparison.baseline;
  const auto base = std::ranges::find(results.rows, baseline, &ComparisonRow::name);
  const bool other = base != results.rows.end() && row.name != baseline;
  if (other && base->seconds_to_target && seconds > 0 && same_clock(plan, row.name, baseline))
    text += fmt::format(" ({:.2f}x)", *base->seconds_to_target / seconds);
  return cell_of(std::move(text), seconds);
}

std::vector<Cell> cells_of(const ComparisonRow& row, const ComparisonResults& results) {
  const ComparisonPlan& plan = results.plan;
  const bool several = plan.comparison.rates.size() > 1;
  std::vector<Cell> cells = {{row.name, row.name}, headline(row, several), {}};
  if (row.difference_percent && row.name != plan.comparison.baseline) {
    cells.back() =
        cell_of(fmt::format("{:+.2f} %", *row.difference_percent), *row.difference_percent);
  }
  for (size_t i = 0; several && i < row.cells.size(); ++i) cells.push_back(rate_cell(row.cells[i]));
  if (!row.best) {
    cells.resize(columns_of(plan).size());
    return cells;
  }
  const auto sent = [](double bytes) { return cell_of(shown_bytes(bytes), bytes); };
  cells.push_back(sent(row.bytes_between_replicas));
  cells.push_back(row.bytes_allreduce > 0
                      ? share_cell(row.bytes_between_replicas / row.bytes_allreduce)
                      : Cell());
  cells.push_back(sent(row.bytes_pipeline));
  cells.push_back(share_cell(row.busy));
  cells.push_back(
      cell_of(grouped(static_cast<int64_t>(row.tokens_per_second)), row.tokens_per_second));
  if (plan.comparison.target_loss > 0) cells.push_back(target_cell(row, results));
  return cells;
}

const Recipe& first_recipe(const ComparisonPlan& plan) {
  for (const PlannedRun& run : plan.runs) {
    if (run.refused.empty()) return run.recipe.recipe;
  }
  LEEWAY_UNREACHABLE("a plan must have something to run");
}

// Rows whose best rate is at an edge of the grid: a wider grid might find a better one.
std::string edge_note(const ComparisonResults& results) {
  const std::vector<double>& rates = results.plan.comparison.rates;
  if (rates.size() < 2) return "";
  const auto [least, most] = std::ranges::minmax(rates);
  std::vector<std::string> names;
  for (const ComparisonRow& row : results.rows) {
    if (!row.best) continue;
    const double best = row.cells[*row.best].rate;
    if (best == least || best == most) names.push_back(row.name);
  }
  if (names.empty()) return "";
  return fmt::format(
      "The best rate is at an edge of the grid for {}: a wider grid may find a better one.",
      fmt::join(names, ", "));
}

// Why the rows can be compared, or why not.
std::string fairness(const ComparisonPlan& plan) {
  if (!plan.unfair.empty())
    return fmt::format("Not a fair comparison (fair = false): {}.", fmt::join(plan.unfair, "; "));
  const Recipe& recipe = first_recipe(plan);
  return fmt::format("Every run: {} tokens in {} updates, the same validation text.",
                     grouped(run_tokens(recipe)), grouped(recipe.run.updates));
}

// Not all of it was work if the workers of a run had to share cores.
std::string cores_note(const ComparisonResults& results) {
  for (const RunOutcome& outcome : results.outcomes) {
    if (!outcome.summary.is_object()) continue;  // it failed
    const int64_t cores = outcome.summary.value("cores", int64_t{0});
    const int64_t threads = outcome.summary.value("threads", int64_t{0});
    if (cores == 0 || threads <= cores) continue;
    return fmt::format("Busy shares include waiting for a core, up to {} on {}.",
                       counted(threads, "thread"), counted(cores, "core"));
  }
  return "";
}

std::vector<std::string> notes_of(const ComparisonResults& results) {
  const ComparisonPlan& plan = results.plan;
  std::vector<std::string> notes;
  const bool one = plan.seeds.size() == 1;
  notes.push_back(fmt::format("{} {}{}.", one ? "Seed" : "Seeds", fmt::join(plan.seeds, ", "),
                              one ? "" : "; losses are mean ± half the range"));
  if (plan.comparison.rates.size() > 1) {
    notes.push_back(
        "Learning rates are the variant's own times x; every variant ran with all of them, and its "
        "loss is that of its best.");
  }
  if (const std::string edge = edge_note(results); !edge.empty()) notes.push_back(edge);
  const bool target = plan.comparison.target_loss > 0;
  if (target) {
    notes.push_back(fmt::format(
        "To loss {:g}: seconds until an evaluation first reached it, mean over the seeds "
        "if all of them did, else how many did; in brackets, how many times sooner than "
        "{}.",
        plan.comparison.target_loss, plan.comparison.baseline));
  }
  const std::string timed =
      target ? "Busy shares, tokens/s and times to the loss" : "Busy shares and tokens/s";
  const auto simulated = std::ranges::count_if(plan.runs, is_simulated);
  if (simulated > 0 && simulated < std::ssize(plan.runs)) {
    notes.push_back(timed +
                    " are simulated for some variants and measured for others (run.driver): do not "
                    "compare them.");
  }
  if (simulated > 0 && simulated == std::ssize(plan.runs))
    notes.push_back(timed + " are in simulated time (run.driver = sim).");
  if (std::string note = cores_note(results); !note.empty()) notes.push_back(std::move(note));
  notes.push_back(fmt::format("Made by: {}", results.command));
  return notes;
}

Json cell_json(const RateCell& cell) {
  const bool good = cell.why.empty();
  return {{"rate", cell.rate},
          {"loss", good ? Json(cell.mean) : Json()},
          {"loss_half_range", good ? Json(cell.half_range) : Json()},
          {"losses", cell.losses},
          {"failed", good ? Json() : Json(cell.why)}};
}

Json row_json(const ComparisonRow& row) {
  const RateCell* best = row.best ? &row.cells[*row.best] : nullptr;
  const auto number = [&](double value) { return best != nullptr ? Json(value) : Json(); };
  Json json{{"name", row.name},
            {"failed", best != nullptr ? Json() : Json(row.why())},
            {"loss", best != nullptr ? Json(best->mean) : Json()},
            {"loss_half_range", best != nullptr ? Json(best->half_range) : Json()},
            {"rate", best != nullptr ? Json(best->rate) : Json()},
            {"difference_percent", row.difference_percent ? Json(*row.difference_percent) : Json()},
            {"bytes_averaging", number(row.bytes_averaging)},
            {"bytes_total_between_replicas", number(row.bytes_between_replicas)},
            {"bytes_pipeline", number(row.bytes_pipeline)},
            {"bytes_allreduce", number(row.bytes_allreduce)},
            {"busy", number(row.busy)},
            {"tokens_per_second", number(row.tokens_per_second)},
            {"seconds_to_target", row.seconds_to_target ? Json(*row.seconds_to_target) : Json()},
            {"rates", Json::array()}};
  for (const RateCell& cell : row.cells) json["rates"].push_back(cell_json(cell));
  return json;
}

Json run_json(const PlannedRun& run, const RunOutcome& outcome, const std::string& variant) {
  return {
      {"variant", variant},
      {"rate", run.rate},
      {"seed", run.seed},
      {"folder", "runs/" + run.name},
      {"failed", outcome.loss ? Json() : Json(outcome.why)},
      {"loss", outcome.loss ? Json(*outcome.loss) : Json()},
      {"seconds_to_target", outcome.seconds_to_target ? Json(*outcome.seconds_to_target) : Json()},
      {"summary", outcome.summary}};
}

// In characters, not bytes: "±" is one.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string markdown_cell(std::string_view text) {
  std::string cell;
  for (const char c : shown(text)) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

std::string markdown_table(const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> widths(lines.front().size(), 3);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
  }
  std::string text;
  for (size_t row = 0; row < lines.size(); ++row) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string& cell = lines[row][i];
      text += fmt::format("| {}{:{}} ", cell, "", widths[i] - width_of(cell));
    }
    text += "|\n";
    if (row > 0) continue;
    for (const size_t width : widths) text += fmt::format("|{:-<{}}", "", width + 2);
    text += "|\n";
  }
  return text;
}

}  // namespace

Json comparison_json(const ComparisonResults& results) {
  Json json{{"title", Path(results.plan.source_name).stem().string()},
            {"columns", columns_of(results.plan)},
            {"rows", Json::array()},
            {"notes", notes_of(results)},
            {"fair", fairness(results.plan)}};
  for (const ComparisonRow& row : results.rows) {
    Json cells = Json::array();
    for (Cell& cell : cells_of(row, results)) cells.push_back(std::move(cell.page));
    json["rows"].push_back(std::move(cells));
  }
  return json;
}

std::string comparison_markdown(const ComparisonResults& results) {
  const ComparisonPlan& plan = results.plan;
  std::vector<std::vector<std::string>> lines(1);
  for (const std::string& column : columns_of(plan)) lines[0].push_back(markdown_cell(column));
  for (const ComparisonRow& row : results.rows) {
    lines.emplace_back();
    for (const Cell& cell : cells_of(row, results))
      lines.back().push_back(markdown_cell(cell.text));
  }
  std::string text = fmt::format("# {}\n\n", shown(Path(plan.source_name).stem().string()));
  const char* strong = plan.unfair.empty() ? "" : "**";
  text += markdown_table(lines) + fmt::format("\n- {}{}{}\n", strong, fairness(plan), strong);
  for (const std::string& note : notes_of(results)) text += fmt::format("- {}\n", shown(note));
  return text;
}

std::string results_json(const ComparisonResults& results) {
  const ComparisonPlan& plan = results.plan;
  Json json{
      {"version", LEEWAY_VERSION},
      {"file", plan.source_name},
      {"command", results.command},
      {"fair", plan.unfair.empty()},
      {"unfair", plan.unfair},
      {"baseline", plan.comparison.baseline},
      {"seeds", plan.seeds},
      {"rates", plan.comparison.rates},
      {"target_loss", plan.comparison.target_loss > 0 ? Json(plan.comparison.target_loss) : Json()},
      {"variants", Json::array()},
      {"runs", Json::array()},
      {"comparison", comparison_json(results)}};
  for (const ComparisonRow& row : results.rows) json["variants"].push_back(row_json(row));
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const PlannedRun& run = plan.runs[i];
    json["runs"].push_back(
        run_json(run, results.outcomes[i], plan.comparison.variants[run.variant].name));
  }
  // Names come from the user; invalid UTF-8 in a path must not abort the program.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace leeway
