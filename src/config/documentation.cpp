// docs/configuration.md from the table of keys, so that the page cannot fall behind the parser.
#include <fmt/format.h>

#include "config/keys.h"
#include "config/print.h"

namespace leeway {
namespace {

constexpr std::string_view kHead = R"(# Configuration

<!-- Generated: build/leeway config keys > docs/configuration.md -->

A recipe is a TOML file. It is complete with what it leaves out: every key but `data.train` has a
default. Any key can be set from the command line, `--set model.width=256`, once for each key; that
wins over the file.

- `leeway config check RECIPE` says whether a recipe is good, and shows what it makes: the cut into
  stages, how late their gradients are, and the memory that each of them takes.
- `leeway config print RECIPE` shows every value and where it came from: default, file and line, or
  `--set`. What it prints is a recipe too.

A default in *italics* follows from other keys; the word `"auto"` asks for it. The value after
`--set` is TOML, and a bare word is text: `--set run.device=cuda:0`. Lists need their quotes, hence
quotes for the shell: `--set 'data.train=["a.txt", "b.txt"]'`; a list of one may be a bare word.
)";

// The bar ends a cell of a Markdown table.
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
