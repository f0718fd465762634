// leeway join HOST:PORT
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/fleet_arguments.h"
#include "cli/recipe_data.h"
#include "cli/validators.h"
#include "config/texts.h"
#include "drivers/threads/wall_clock.h"
#include "drivers/zmq/address.h"
#include "fleet/guest.h"
#include "fleet/zmq_wire.h"
#include "run/device.h"
#include "terminal/interrupt.h"

namespace leeway::cli {
namespace {

struct JoinArguments {
  std::string host;
  std::string host_key;
  std::string key;
  std::string data;
  std::string valid;
  std::string device;
  std::vector<std::string> devices;
  std::string out = "out/join";
  std::string name;
  std::string listen;
  std::string address;
  int64_t workers = 0;  // 0: one, or one for each of the devices
  double wait_s = 60;
  bool insecure = false;
};

std::string machine_name() { return fmt::format("{}/{}", this_machine(), ::getpid()); }

Status check(const JoinArguments& arguments) {
  if (arguments.host.rfind(':') == std::string::npos) {
    return usage_error(
        fmt::format("{} has no port; name the coordinator as HOST:PORT", arguments.host));
  }
  const bool plain = arguments.key.empty() && arguments.host_key.empty();
  if (!plain && (arguments.key.empty() || arguments.host_key.empty())) {
    return usage_error(
        "--key and --host-key go together: make a key with `leeway keys new FILE`, and ask who "
        "runs "
        "the coordinator for its public key");
  }
  if (plain && !arguments.insecure && !is_here_only("tcp://" + arguments.host)) {
    return usage_error(
        "without --key and --host-key everything would travel as plain text; give both, or "
        "--insecure if the network is your own");
  }
  if (plain && !arguments.insecure && !is_here_only(arguments.listen)) {
    return usage_error(fmt::format(
        "without --key and --host-key anybody could speak to this process at {}; give both, listen "
        "at tcp://127.0.0.1:0, or give --insecure if the network is your own",
        arguments.listen));
  }
  return {};
}

// Now, and not when the coordinator has answered.
Status choose_devices(JoinArguments& arguments) {
  if (!arguments.device.empty()) arguments.devices = {arguments.device};
  for (const std::string& device : arguments.devices) {
    if (!is_device(device)) {
      return usage_error(fmt::format("{} is no device; write auto, cpu, cuda or cuda:N", device));
    }
    LEEWAY_TRY(check_device(device));
  }
  if (arguments.workers == 0) arguments.workers = std::ssize(arguments.devices);
  return {};
}

Status run(JoinArguments arguments) {
  survive_failed_writes();
  watch_for_interrupt();
  const bool plain = arguments.key.empty() && !arguments.insecure;
  if (arguments.listen.empty()) arguments.listen = plain ? "tcp://127.0.0.1:0" : "tcp://*:0";
  LEEWAY_TRY(check(arguments));
  LEEWAY_TRY(choose_devices(arguments));
  // Once, while somebody looks: a name that is lost later is asked for again.
  LEEWAY_TRY(zmq::resolved("tcp://" + arguments.host, 0));
  const threads::WallClock clock;
  std::optional<zmq::KeyPair> keys;
  std::string host_key;
  if (!arguments.key.empty()) {
    LEEWAY_ASSIGN(keys, zmq::read_key_pair(arguments.key));
    LEEWAY_ASSIGN(host_key, zmq::read_public_key(arguments.host_key));
  }
  while (true) {
    const ProcessId self = new_process_id(clock);
    const GuestOptions options = {
        .wire = zmq_wire({.self = self,
                          .listen = arguments.listen,
                          .keys = keys,
                          .host_address = "tcp://" + arguments.host,
                          .host_key = host_key,
                          .clock = clock}),
        .self = self,
        .host_name = arguments.host,
        .name = arguments.name.empty() ? machine_name() : arguments.name,
        .workers = std::max<int64_t>(1, arguments.workers),
        .address = arguments.address,
        .folder = arguments.out,
        .data = arguments.data,
        .valid = arguments.valid,
        .devices = arguments.devices,
        .text_cache = user_text_cache(),
        .reach_within = Nanos::rounded(std::min(arguments.wait_s, 1e9) * 1e9),
        .clock = clock,
        .said = say_aside,
        .interrupted = interrupted};
    LEEWAY_ASSIGN(const GuestEnd end, take_part(options));
    if (end == GuestEnd::kOver) return {};
    if (end == GuestEnd::kStopped) {
      return Error{fmt::format(
          "{} has stopped before the end of the run; join again when it goes on", arguments.host)};
    }
    say_aside("the coordinator does not know this process any more; it joins again");
  }
}

}  // namespace

void add_join(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("join", "Take part in a run that another machine has");
  command->footer(
      "Example:\n"
      "  leeway keys new my.key\n"
      "  leeway join trainer.example.org:7070 --key my.key --host-key trainer.key.pub --data "
      "corpus/\n"
      "The coordinator sends the recipe and hands out places. A process that finds all places "
      "taken\n"
      "waits until one is empty. Ctrl-C leaves the run; the others go on.");
  const auto arguments = std::make_shared<JoinArguments>();
  command->add_option("HOST:PORT", arguments->host, "Where the coordinator listens")
      ->required()
      ->option_text("(required)");
  command->add_option("--key", arguments->key, "Key file of this machine (`leeway keys new`)");
  command->add_option("--host-key", arguments->host_key,
                      "Public key of the coordinator, or the file that has it");
  command->add_option("--data", arguments->data,
                      "Training data on this machine [the paths of the recipe]");
  command->add_option("--valid", arguments->valid,
                      "Validation data on this machine [that of --data, or of the recipe]");
  CLI::Option* workers =
      command->add_option("--workers", arguments->workers, "Places that this process can take [1]");
  workers->check(at_least(1));
  CLI::Option* device =
      command->add_option("--device", arguments->device, "In place of run.device, for all of them");
  command
      ->add_option("--devices", arguments->devices,
                   "A place on each of these, such as cuda:0,cuda:1 [run.device]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(workers)
      ->excludes(device);
  command->add_option("--out", arguments->out,
                      "Folder for its log and for what its workers save [out/join]");
  command->add_option("--name", arguments->name, "What people call this process [host/pid]");
  command->add_option(
      "--listen", arguments->listen,
      "Where other workers reach this process [tcp://*:0; without keys tcp://127.0.0.1:0]");
  command->add_option("--address", arguments->address,
                      "Host by which others reach it [the one that the coordinator sees]");
  command
      ->add_option("--wait", arguments->wait_s,
                   "Seconds in which the coordinator is to answer [60]")
      ->check(at_least(1));
  command->add_flag("--insecure", arguments->insecure, "Plain text, without keys");
  command->callback([arguments, &chosen] { chosen = [=] { return run(*arguments); }; });
}

}  // namespace leeway::cli
