// leeway eval RUN --data DIR
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/human.h"
#include "cli/commands.h"
#include "cli/recipe_data.h"
#include "cli/validators.h"
#include "data/dataset.h"
#include "drivers/threads/wall_clock.h"
#include "inference/evaluation.h"
#include "inference/trained_model.h"
#include "run/device.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"

namespace leeway::cli {
namespace {

struct EvalArguments {
  std::string run;
  std::string data;
  std::string device = "cpu";
  int64_t windows = 0;
  int64_t batch = 16;
  bool json = false;
};

Status check_same_tokenizer(const TrainedModel& model, const TokenFile& tokens) {
  const uint64_t data_hash = tokens.info().tokenizer_hash;
  if (data_hash == 0 || data_hash == model.counters().tokenizer_hash) return {};
  return usage_error(fmt::format(
      "{} was not made with the tokenizer {} was trained with; prepare the text again with "
      "--tokenizer saved:RUN/tokenizer",
      tokens.path().string(), model.checkpoint().string()));
}

Result<HeldOut> open_data(const EvalArguments& arguments, const TrainedModel& model,
                          const Clock& clock) {
  watch_for_interrupt();
  Progress progress(clock, "reading text", 0);
  return open_held_out(arguments.data, model.tokenizer(), text_cache(model.run_folder()),
                       [&](uint64_t done, uint64_t) {
                         progress.show(done, human_bytes(done));
                         return !interrupted();
                       });
}

void print(const EvalArguments& arguments, const TrainedModel& model, const TokenFile& tokens,
           const Evaluation& evaluation) {
  const auto bits = bits_per_byte(evaluation.loss, tokens.info());
  if (arguments.json) {
    nlohmann::ordered_json json;
    json["checkpoint"] = model.checkpoint().string();
    json["data"] = tokens.path().string();
    json["loss"] = evaluation.loss;
    json["perplexity"] = std::exp(evaluation.loss);
    json["bits_per_byte"] = bits ? nlohmann::ordered_json(*bits) : nullptr;
    json["tokens"] = evaluation.tokens;
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{} on {}: {} tokens\n", model.checkpoint().string(), tokens.path().string(),
             human_count(static_cast<uint64_t>(evaluation.tokens)));
  fmt::print("loss {:.4f}, perplexity {:.3f}, bits per byte {}\n", evaluation.loss,
             std::exp(evaluation.loss), bits ? fmt::format("{:.4f}", *bits) : "unknown");
}

Status run(const EvalArguments& arguments) {
  LEEWAY_TRY(check_device(arguments.device));
  set_up_compute(0);
  const at::Device device(device_here(arguments.device));
  LEEWAY_ASSIGN(const TrainedModel model, TrainedModel::load(arguments.run, device));
  if (!model.note().empty()) fmt::print(stderr, "warning: {}\n", model.note());
  const threads::WallClock clock;
  LEEWAY_ASSIGN(const HeldOut data, open_data(arguments, model, clock));
  for (const std::string& note : data.notes) fmt::print(stderr, "{}\n", note);
  const TokenFile& tokens = data.tokens;
  LEEWAY_TRY(check_same_tokenizer(model, tokens));
  LEEWAY_TRY(check_windows(tokens, model.shape().context));
  LEEWAY_TRY(tokens.check_ids(static_cast<uint64_t>(model.shape().vocabulary)));
  const EvaluationOptions options{.context = model.shape().context,
                                  .windows = arguments.windows,
                                  .batch = arguments.batch,
                                  .device = device};
  Progress progress(clock, "evaluating", evaluation_windows(tokens, options));
  const auto evaluation =
      evaluate([&](const Batch& batch) { return model.loss(batch); }, tokens, options,
               [&](int64_t done, int64_t) {
                 progress.show(static_cast<uint64_t>(done), "");
                 return !interrupted();
               });
  if (!evaluation) return stopped_error("stopped before the last window");
  progress.finish(fmt::format("{} windows", evaluation->windows));
  print(arguments, model, tokens, *evaluation);
  return {};
}

}  // namespace

void add_eval(CLI::App& app, Action& chosen) {
  CLI::App* command =
      app.add_subcommand("eval", "Measure a run's loss, perplexity and bits per byte");
  command->footer("Example:\n  leeway eval out/first --data more-text.txt");
  const auto arguments = std::make_shared<EvalArguments>();
  command->add_option("RUN", arguments->run, "Run folder, or one of its checkpoints")->required();
  command
      ->add_option("--data", arguments->data,
                   "Folder written by `leeway data prepare` (its validation part, if any), a token "
                   "file, or text")
      ->required();
  command
      ->add_option("--windows", arguments->windows,
                   "Number of evenly spread windows, one context each; 0: all")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--batch", arguments->batch, "Windows per batch")
      ->check(at_least(1))
      ->capture_default_str();
  command->add_option("--device", arguments->device, "auto, cpu, cuda or cuda:N")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
