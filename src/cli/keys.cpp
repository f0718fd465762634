// leeway keys new | show
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/print_result.h"
#include "drivers/zmq/keys.h"
#include "terminal/say.h"

namespace leeway::cli {
namespace {

Status new_key(const Path& file) {
  LEEWAY_ASSIGN(const zmq::KeyPair keys, zmq::new_key_pair());
  LEEWAY_TRY(zmq::write_key_pair(file, keys));
  say(fmt::format("{} is secret and stays on this machine; {} has the public key, for the others\n",
                  file.string(), zmq::public_file(file).string()));
  print_result(keys.public_key + "\n");
  return {};
}

Status show_key(const Path& file) {
  if (file.extension() == ".pub") {
    LEEWAY_ASSIGN(const std::string key, zmq::read_public_key(file));
    print_result(key + "\n");
    return {};
  }
  LEEWAY_ASSIGN(const zmq::KeyPair keys, zmq::read_key_pair(file));
  print_result(keys.public_key + "\n");
  return {};
}

struct KeyCommand {
  const char* name;
  const char* help;
  const char* file;
  const char* footer;
};

void add_key_command(CLI::App& keys, Action& chosen, const KeyCommand& words,
                     Status (*run)(const Path&)) {
  CLI::App* command = keys.add_subcommand(words.name, words.help);
  command->footer(words.footer);
  const auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, words.file)->required()->option_text("(required)");
  command->callback([file, &chosen, run] { chosen = [=] { return run(*file); }; });
}

}  // namespace

void add_keys(CLI::App& app, Action& chosen) {
  CLI::App* keys = app.add_subcommand("keys",
                                      "Make or show the key of a machine, for runs of "
                                      "many machines");
  keys->require_subcommand(1);
  keys->footer("Example:\n  leeway keys new berlin.key");
  add_key_command(*keys, chosen,
                  {.name = "new",
                   .help = "Make a key, and print its public part",
                   .file = "File to write, for this machine alone; FILE.pub gets the public key",
                   .footer = "Example:\n"
                             "  leeway keys new berlin.key\n"
                             "The line `berlin PUBLIC_KEY` in the coordinator's list of machines "
                             "then lets it in."},
                  new_key);
  add_key_command(*keys, chosen,
                  {.name = "show",
                   .help = "Print the public part of a key",
                   .file = "File made by `leeway keys new`",
                   .footer = "Example:\n  leeway keys show berlin.key"},
                  show_key);
}

}  // namespace leeway::cli
