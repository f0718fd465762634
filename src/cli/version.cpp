// leeway version, leeway --version
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace leeway::cli {
namespace {

std::string version_text() {
  return fmt::format("leeway {}\nLibTorch {}, {} thread{}, {}", LEEWAY_VERSION, TORCH_VERSION,
                     at::get_num_threads(), at::get_num_threads() == 1 ? "" : "s",
                     at::hasCUDA() ? "CUDA" : "no CUDA");
}

}  // namespace

void add_version(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "version", "Print the versions of Leeway and LibTorch, and whether LibTorch has CUDA");
  command->footer("Example:\n  leeway version");
  app.set_version_flag("--version", version_text, "The same as `leeway version`");
  command->callback([&chosen] {
    chosen = [] {
      fmt::print("{}\n", version_text());
      return Status();
    };
  });
}

}  // namespace leeway::cli
