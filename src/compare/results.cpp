#include "compare/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "events/event.h"
#include "events/log_files.h"

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

double mean_of(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double number_in(const Json& summary, const char* key) {
  const auto found = summary.find(key);
  return found != summary.end() && found->is_number() ? found->get<double>() : 0.0;
}

double busy_of(const Json& summary) {
  std::vector<double> shares;
  for (const Json& stage : summary.value("stages", Json::array()))
    shares.push_back(number_in(stage, "busy"));
  return shares.empty() ? 0 : mean_of(shares);
}

// From the first line of the log.
std::string data_hash_of(const Path& folder) {
  std::string hashes;
  const auto use = [&](const LogLine& line) -> Result<bool> {
    const Result<Event> started = Event::parse(line.text);
    if (!started.ok()) return false;
    hashes = started->text("data_hash").value_or("") + started->text("valid_hash").value_or("");
    return false;
  };
  static_cast<void>(read_log(folder / "events.jsonl", {}, {}, use));
  return hashes;
}

// Time of the first evaluation at or below the loss.
std::optional<double> seconds_to(double target_loss, const Path& folder) {
  std::optional<double> seconds;
  const auto use = [&](const LogLine& line) -> Result<bool> {
    if (line.text.find("\"evaluated\"") == line.text.npos) return true;  // most record work
    const Result<Event> event = Event::parse(line.text);
    if (!event.ok() || event->kind() != "evaluated") return true;
    const std::optional<double> loss = event->number("valid_loss");
    const bool reached = loss && *loss <= target_loss;
    if (reached) seconds = event->number("seconds");
    return !reached;
  };
  static_cast<void>(read_log(folder / "events.jsonl", {}, {}, use));
  return seconds;
}

RateCell cell_of(double rate, const std::vector<const RunOutcome*>& outcomes) {
  RateCell cell{.rate = rate, .losses = {}, .why = {}};
  for (const RunOutcome* outcome : outcomes) {
    if (outcome->loss) cell.losses.push_back(*outcome->loss);
    if (!outcome->loss && cell.why.empty()) cell.why = outcome->why;
  }
  if (cell.losses.empty()) return cell;
  cell.mean = mean_of(cell.losses);
  const auto [least, most] = std::ranges::minmax_element(cell.losses);
  cell.half_range = (*most - *least) / 2;
  return cell;
}

void add_costs(const std::vector<const RunOutcome*>& outcomes, ComparisonRow& row) {
  const auto mean = [&](auto number) {
    std::vector<double> numbers;
    for (const RunOutcome* outcome : outcomes) numbers.push_back(number(outcome->summary));
    return mean_of(numbers);
  };
  const auto of = [&](const char* key) {
    return mean([=](const Json& summary) { return number_in(summary, key); });
  };
  row.bytes_averaging = of("bytes_averaging");
  row.bytes_between_replicas = mean([](const Json& summary) {  // earlier versions did not add up
    const bool has = summary.contains("bytes_total_between_replicas");
    return number_in(summary, has ? "bytes_total_between_replicas" : "bytes_averaging");
  });
  row.bytes_pipeline = of("bytes_activations") + of("bytes_gradients");
  row.bytes_allreduce = of("bytes_allreduce");
  row.busy = mean(busy_of);
  row.tokens_per_second = of("tokens_per_second");
  std::vector<double> seconds;
  for (const RunOutcome* outcome : outcomes) {
    if (outcome->seconds_to_target) seconds.push_back(*outcome->seconds_to_target);
  }
  row.seeds_at_target = seconds.size();
  if (seconds.size() == outcomes.size()) row.seconds_to_target = mean_of(seconds);
}

std::vector<const RunOutcome*> of_cell(const ComparisonPlan& plan,
                                       const std::vector<RunOutcome>& outcomes, size_t variant,
                                       double rate) {
  std::vector<const RunOutcome*> found;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (plan.runs[i].variant == variant && plan.runs[i].rate == rate) found.push_back(&outcomes[i]);
  }
  return found;
}

ComparisonRow row_of(const ComparisonPlan& plan, const std::vector<RunOutcome>& outcomes,
                     size_t variant) {
  ComparisonRow row{.name = plan.comparison.variants[variant].name,
                    .cells = {},
                    .best = {},
                    .difference_percent = {},
                    .seconds_to_target = {}};
  for (const double rate : plan.comparison.rates) {
    row.cells.push_back(cell_of(rate, of_cell(plan, outcomes, variant, rate)));
    const RateCell& cell = row.cells.back();
    if (!cell.why.empty()) continue;  // one lucky seed at a failing rate is not a result
    if (!row.best || cell.mean < row.cells[*row.best].mean) row.best = row.cells.size() - 1;
  }
  if (row.best) add_costs(of_cell(plan, outcomes, variant, row.cells[*row.best].rate), row);
  return row;
}

Path beside(const Path& folder, const PlannedRun& run, std::string_view ending) {
  return folder / "runs" / (run.name + std::string(ending));
}

}  // namespace

Path run_folder(const Path& folder, const PlannedRun& run) { return beside(folder, run, ""); }
Path run_recipe(const Path& folder, const PlannedRun& run) { return beside(folder, run, ".toml"); }
Path run_log(const Path& folder, const PlannedRun& run) { return beside(folder, run, ".log"); }
Path run_failure(const Path& folder, const PlannedRun& run) {
  return beside(folder, run, ".failed");
}

std::optional<RunOutcome> read_outcome(const Path& folder, const PlannedRun& run,
                                       double target_loss) {
  if (!run.refused.empty()) return RunOutcome{.loss = {}, .why = run.refused};
  if (const auto why = read_text(run_failure(folder, run)); why.ok())
    return RunOutcome{.loss = {}, .why = *why};
  const Path path = run_folder(folder, run);
  const Result<std::string> text = read_text(path / "summary.json");
  if (!text.ok()) return std::nullopt;
  // results.json repeats the summary, indented: a damaged one that nests deep would take all
  // memory.
  constexpr int kDepthMax = 8;
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDepthMax; };
  Json summary = Json::parse(*text, shallow, /*allow_exceptions=*/false);
  if (!summary.is_object() || summary.value("finished", Json()) != true) return std::nullopt;
  RunOutcome outcome{.loss = {}, .why = {}, .summary = {}, .data_hash = data_hash_of(path)};
  const Json loss = summary.value("valid_loss", Json());
  if (loss.is_number()) outcome.loss = loss.get<double>();
  if (!outcome.loss) {
    outcome.why =
        run.recipe.recipe.data.valid_share > 0
            ? "it has no validation loss because no document was held out: set data.valid, raise "
              "data.valid_share, or add documents"
            : "it has no validation loss: set data.valid or data.valid_share";
  }
  outcome.summary = std::move(summary);
  if (target_loss > 0) outcome.seconds_to_target = seconds_to(target_loss, path);
  return outcome;
}

std::string ComparisonRow::why() const {
  for (const RateCell& cell : cells) {
    if (!cell.why.empty()) return cell.why;
  }
  return "";
}

std::vector<ComparisonRow> comparison_rows(const ComparisonPlan& plan,
                                           const std::vector<RunOutcome>& outcomes) {
  LEEWAY_CHECK(plan.runs.size() == outcomes.size(), "there must be an outcome for every run");
  std::vector<ComparisonRow> rows;
  for (size_t variant = 0; variant < plan.comparison.variants.size(); ++variant)
    rows.push_back(row_of(plan, outcomes, variant));
  const auto base = std::ranges::find(rows, plan.comparison.baseline, &ComparisonRow::name);
  if (base == rows.end() || !base->best) return rows;
  const double loss = base->cells[*base->best].mean;
  for (ComparisonRow& row : rows) {
    if (row.best && loss != 0)
      row.difference_percent = 100 * (row.cells[*row.best].mean - loss) / loss;
  }
  return rows;
}

std::vector<std::string> data_named(const DataOptions& data) {
  std::vector<std::string> named = data.train;
  named.emplace_back();  // separates the two lists
  named.insert(named.end(), data.valid.begin(), data.valid.end());
  named.push_back(data.tokenizer);
  named.push_back(fmt::format("{}", data.valid_share));
  return named;
}

Status check_same_data(const ComparisonPlan& plan, const std::vector<RunOutcome>& outcomes) {
  std::map<std::vector<std::string>, size_t> first_of;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].data_hash.empty()) continue;
    const auto [first, added] = first_of.emplace(data_named(plan.runs[i].recipe.recipe.data), i);
    if (added || outcomes[first->second].data_hash == outcomes[i].data_hash) continue;
    return usage_error(fmt::format(
        "the data changed between runs {} and {}: remove the folder of the older one, or choose "
        "another --out",
        plan.runs[first->second].name, plan.runs[i].name));
  }
  return {};
}

}  // namespace leeway
