// leeway coordinate RECIPE
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/fleet_arguments.h"
#include "cli/training.h"
#include "config/print.h"
#include "config/texts.h"
#include "drivers/threads/wall_clock.h"
#include "drivers/zmq/address.h"
#include "fleet/allow_list.h"
#include "fleet/host.h"
#include "fleet/kept_session.h"
#include "fleet/zmq_wire.h"
#include "terminal/interrupt.h"

namespace leeway::cli {
namespace {

struct CoordinateArguments {
  TrainArguments train;
  std::string listen;
  std::string key;
  std::string allow;
  bool insecure = false;
};

Status check(const CoordinateArguments& arguments, const std::string& listen) {
  const bool plain = arguments.key.empty() && arguments.allow.empty();
  if (!plain && (arguments.key.empty() || arguments.allow.empty())) {
    return usage_error(
        "--key and --allow go together: make a key with `leeway keys new FILE`, and list the "
        "public "
        "keys of those who may join");
  }
  if (plain && !arguments.insecure && !is_here_only(listen)) {
    return usage_error(fmt::format(
        "at {} without --key and --allow anybody could join, and read what is sent; give both, or "
        "--insecure if the network is your own",
        listen));
  }
  return {};
}

// The name on the list, which is read again each time: deleting a line takes effect at once. None:
// the key is not there.
Result<std::optional<std::string>> listed(const Path& file, const std::string& key) {
  LEEWAY_ASSIGN(const AllowList list, AllowList::read(file));
  const AllowedMachine* const machine = list.find(key);
  return machine == nullptr ? std::nullopt : std::optional(machine->name);
}

// A list that cannot be read lets nobody in, which is said once, and not at each attempt.
bool is_allowed(const Path& file, const std::string& key, std::string& said) {
  const auto name = listed(file, key);
  const std::string trouble = name.ok() ? "" : name.error().message;
  if (std::exchange(said, trouble) != trouble && !name.ok()) {
    say_aside(fmt::format("warning: nobody can join: {}", trouble));
  }
  return name.ok() && name->has_value();
}

// Nobody has to go because of a list that cannot be read: somebody is editing it.
bool may_stay(const Path& file, const std::string& key) {
  const auto name = listed(file, key);
  return !name.ok() || name->has_value();
}

std::string listed_name(const Path& file, const std::string& key) {
  const auto name = listed(file, key);
  return name.ok() ? name->value_or("") : "";
}

// One that is started again listens where it did: that is where the others look for it.
std::string address_of(const CoordinateArguments& arguments, const Recipe& recipe) {
  if (!arguments.listen.empty()) return arguments.listen;
  const auto kept = arguments.train.resume ? kept_session(arguments.train.folder()) : std::nullopt;
  return kept ? kept->address : recipe.network.listen;
}

Status run(CoordinateArguments arguments) {
  const threads::WallClock clock;
  arguments.train.driver = "zmq";
  LEEWAY_ASSIGN(const LoadedRecipe loaded, begin_training(arguments.train));
  // Before anybody is spoken to: processes of a run that goes on must not take this for its end.
  LEEWAY_TRY(hold_existing_run(arguments.train.folder(), arguments.train.existing()));
  const std::string listen = address_of(arguments, loaded.recipe);
  if (!is_listen_address(listen)) {
    return usage_error(fmt::format(
        "--listen {} is not an address; give tcp://HOST:PORT, such as tcp://*:7070", listen));
  }
  LEEWAY_TRY(check(arguments, listen));
  std::optional<zmq::KeyPair> keys;
  if (!arguments.key.empty()) {
    LEEWAY_ASSIGN(keys, zmq::read_key_pair(arguments.key));
    LEEWAY_TRY(AllowList::read(arguments.allow));  // now, and not when the first one comes
  }
  std::string said_of_list;  // on the thread of the wire
  LEEWAY_ASSIGN(
      const std::unique_ptr<Host> host,
      Host::open(
          {.wire = zmq_wire({.self = kHost,
                             .listen = listen,
                             .keys = keys,
                             .allows =
                                 [&](const std::string& key) {
                                   return is_allowed(arguments.allow, key, said_of_list);
                                 },
                             .clock = clock}),
           .recipe = loaded.recipe,
           .recipe_text = print_recipe(loaded),
           .folder = arguments.train.folder(),
           .clock = clock,
           .said = say_aside,
           .interrupted = interrupted,
           .allowed =
               [&](const std::string& key) { return !keys || may_stay(arguments.allow, key); },
           .listed_as =
               [&](const std::string& key) {
                 return keys ? listed_name(arguments.allow, key) : "";
               },
           .keeps_session = true,
           .returns = arguments.train.resume}));
  // A run that is finished has no use for others.
  const auto invite = [&]() -> Status {
    say_aside(fmt::format("listening at {} on {}", zmq::readable_address(host->address()),
                          this_machine()));
    if (keys) say_aside(fmt::format("its public key is {}", keys->public_key));
    return {};
  };
  Status status = train_and_print(
      arguments.train, loaded, clock,
      {.crew = host.get(), .resume = "leeway coordinate --resume --out", .folder_taken = invite});
  say_what_is_missing(host->merge_logs());
  const Result<RunFolderState> state = run_folder_state(arguments.train.folder());
  const bool finished = state.ok() && *state == RunFolderState::kFinished;
  host->end(finished ? "the run is over" : "the coordinator has stopped", !finished);
  return status;
}

}  // namespace

void add_coordinate(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "coordinate", "Train with processes on other machines, which `leeway join`");
  command->footer(
      std::string("Example:\n"
                  "  leeway keys new trainer.key\n"
                  "  leeway coordinate recipe.toml --listen tcp://*:7070 --key trainer.key --allow "
                  "machines.txt\n"
                  "machines.txt has a line `NAME PUBLIC_KEY` for each machine that may join. The "
                  "coordinator keeps\n"
                  "the run folder; training itself goes from machine to machine.\n") +
      kSignalsHelp);
  const auto arguments = std::make_shared<CoordinateArguments>();
  add_train_arguments(*command, arguments->train);
  command->add_option("--listen", arguments->listen,
                      "Where others reach it, tcp://HOST:PORT [network.listen]");
  command->add_option("--key", arguments->key, "Its key file (`leeway keys new`)");
  command->add_option("--allow", arguments->allow, "Who may join: a file with names and keys");
  command->add_flag("--insecure", arguments->insecure, "Plain text, without keys");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
