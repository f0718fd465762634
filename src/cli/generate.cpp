// leeway generate RUN --prompt TEXT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/validators.h"
#include "inference/generation.h"
#include "inference/trained_model.h"
#include "run/device.h"

namespace leeway::cli {
namespace {

struct GenerateArguments {
  std::string run;
  std::string prompt;
  std::string device = "cpu";
  GenerationOptions options;
};

// Length without a trailing incomplete UTF-8 character, whose other bytes are still to come.
size_t complete_prefix(const std::string& text) {
  const size_t size = text.size();
  for (size_t back = 1; back <= std::min<size_t>(4, size); ++back) {
    const auto byte = static_cast<unsigned char>(text[size - back]);
    if (byte < 0x80) return size;
    if (byte >= 0xC0) {
      const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      return back >= length ? size : size - back;
    }
  }
  return size;
}

Status run(const GenerateArguments& arguments) {
  LEEWAY_TRY(check_device(arguments.device));
  set_up_compute(0);
  LEEWAY_ASSIGN(const TrainedModel model,
                TrainedModel::load(arguments.run, at::Device(device_here(arguments.device))));
  if (!model.note().empty()) fmt::print(stderr, "warning: {}\n", model.note());
  const Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr) {
    return usage_error(fmt::format(
        "{} was trained on a token file without a tokenizer, so its tokens cannot be decoded; "
        "train on text prepared with `leeway data prepare`",
        arguments.run));
  }
  std::vector<TokenId> ids;
  LEEWAY_TRY(tokenizer->encode(arguments.prompt, ids));
  if (ids.empty() && tokenizer->document_marker()) ids.push_back(*tokenizer->document_marker());
  if (ids.empty()) return usage_error("--prompt is empty; this tokenizer needs some text");
  GenerationOptions options = arguments.options;
  options.context = model.shape().context;
  options.stop_at = tokenizer->document_marker();
  options.device = at::Device(device_here(arguments.device));
  fmt::print("{}", arguments.prompt);
  // Decode everything each time: the text of a token can depend on the one before it.
  std::string text = tokenizer->decode(ids);
  size_t printed = text.size();
  std::vector<TokenId> so_far = ids;
  generate([&](const at::Tensor& input) { return model.logits(input); }, ids, options,
           [&](TokenId id) {
             so_far.push_back(id);
             text = tokenizer->decode(so_far);
             const size_t ready = std::max(printed, complete_prefix(text));
             fmt::print("{}", std::string_view(text).substr(printed, ready - printed));
             std::fflush(stdout);
             printed = ready;
           });
  fmt::print("{}\n", std::string_view(text).substr(std::min(printed, text.size())));
  return {};
}

}  // namespace

void add_generate(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt");
  command->footer(
      "Examples:\n"
      "  leeway generate out/first --prompt \"def forward(\"\n"
      "  leeway generate out/first --prompt \"class \" --temperature 0 --tokens 50");
  const auto arguments = std::make_shared<GenerateArguments>();
  GenerationOptions& options = arguments->options;
  command->add_option("RUN", arguments->run, "Run folder, or one of its checkpoints")->required();
  command->add_option("--prompt", arguments->prompt, "Text to continue");
  command->add_option("--tokens", options.tokens, "Maximum number of tokens")
      ->check(at_least(1))
      ->capture_default_str();
  command
      ->add_option("--temperature", options.temperature,
                   "Higher is more random; 0 always picks the likeliest token")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--top-k", options.top_k, "Sample from the N likeliest tokens; 0: all")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Random seed; the same seed gives the same text")
      ->capture_default_str();
  command->add_option("--device", arguments->device, "auto, cpu, cuda or cuda:N")
      ->capture_default_str();
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
