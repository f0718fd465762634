// Generates docs/configuration.md from the table of keys, so that the page always matches the
// parser.
#include <fmt/format.h>

#include "config/keys.h"
#include "config/print.h"

namespace leeway {
namespace {

constexpr std::string_view kHead = R"(# Configuration

<!-- Generated: build/leeway config keys > docs/configuration.md -->

A recipe is a TOML file. Every key but `data.train` has a default. Any key can be set on the command
line, `--set model.width=256`, once for each key; this overrides the file.

- `leeway config check RECIPE` checks everything that `train` would before it trains, on this
  machine: keys, device, cores, data, tokenizer, memory. It writes nothing, and does not read
  through data of more than a few megabytes. It shows what follows from the recipe: how the layers
  are split into stages, how late the gradients of each stage are, and how much memory each stage
  needs.
- `leeway config print RECIPE` shows every value and where it came from: default, file and line, or
  `--set`. The output is itself a recipe.

A default in *italics* depends on other keys; `"auto"` asks for it. The value after `--set` is TOML,
but a bare word is a string: `--set run.device=cuda:0`. Lists need quotes, so put single quotes
around the whole argument for the shell: `--set 'data.train=["a.txt", "b.txt"]'`; a list of one
item may be a bare word.

Where `--set` chooses a method that has no use for a key of the file (`averaging.lag` with
`--set averaging.method=allreduce`), the key is left out, with a note. Names from other programs
(`lr`, `max_steps`, `n_layer`, `batch_size`) are answered with the key that does the same here.
)";

// A bar would end the cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string default_text(const Key& key) {
  if (key.required) return "none: required";
  if (!key.automatic.empty()) return fmt::format("*{}*", key.automatic);
  return fmt::format("`{}`", toml_text(value_of(key, Recipe{})));
}

}  // namespace

std::string configuration_markdown() {
  std::string text(kHead);
  for (const Table& table : tables()) {
    text += fmt::format(
        "\n## `[{}]`\n\n{}\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n",
        table.name, table.help);
    for (const Key& key : keys()) {
      if (key.table() != table.name) continue;
      text += fmt::format("| `{}` | {} | {} | {} |\n", key.name(), cell(default_text(key)),
                          cell(allowed_text(key)), cell(key.help));
    }
  }
  return text;
}

}  // namespace leeway
