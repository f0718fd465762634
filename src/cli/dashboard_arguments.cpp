#include "cli/dashboard_arguments.h"

#include <fmt/format.h>

#include <charconv>

#include "dashboard/access.h"
#include "terminal/say.h"

namespace leeway::cli {
namespace {

Result<int> port_number(const DashboardArguments& arguments) {
  const std::string& text = arguments.port;
  int port = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  if (whole && port >= 0 && port <= 65535) return port;
  return usage_error(fmt::format("{} {}: give a port from 1 to 65535, or 0 for any free port",
                                 arguments.port_option, text));
}

}  // namespace

void add_dashboard_arguments(CLI::App& command, const std::string& port_option,
                             const std::string& prefix, DashboardArguments& arguments) {
  arguments.port_option = port_option;
  arguments.prefix = prefix;
  // Usually an unset shell variable.
  const auto complaint = [](const std::string& port) {
    return port.empty() ? "the port is empty; give one from 1 to 65535, or 0 for any free port"
                        : "";
  };
  command
      .add_option(port_option, arguments.port,
                  "Serve a live dashboard on this port; 0: any free port")
      ->check(CLI::Validator(complaint, ""));
  command.add_option(prefix + "host", arguments.host,
                     "Address to listen on [127.0.0.1: this machine only]; others need a token");
  command.add_option(prefix + "token-file", arguments.token_file,
                     "File with the access token that readers must give");
}

Result<std::unique_ptr<Dashboard>> open_dashboard(const DashboardArguments& arguments,
                                                  const Clock& clock) {
  const std::string host_option = arguments.prefix + "host";
  const std::string token_option = arguments.prefix + "token-file";
  if (arguments.port.empty()) {
    if (arguments.host.empty() && arguments.token_file.empty()) {
      return std::unique_ptr<Dashboard>();
    }
    return usage_error(fmt::format("{} needs {} PORT; add it, or leave both out",
                                   arguments.host.empty() ? token_option : host_option,
                                   arguments.port_option));
  }
  DashboardOptions options = {.port_option = arguments.port_option};
  LEEWAY_ASSIGN(options.port, port_number(arguments));
  if (!arguments.host.empty()) options.host = arguments.host;
  if (!arguments.token_file.empty()) {
    LEEWAY_ASSIGN(options.token, read_token(arguments.token_file));
  } else if (!is_loopback(options.host)) {
    return usage_error(fmt::format(
        "{} {}: other machines can reach this address, so it needs a token; name a token file "
        "with {}",
        host_option, options.host, token_option));
  }
  LEEWAY_ASSIGN(auto dashboard, Dashboard::open(options, clock));
  say(fmt::format(
      "dashboard: {}{}\n", dashboard->address(),
      options.token.empty() ? "" : fmt::format("?token=... (see {})", arguments.token_file)));
  return dashboard;
}

}  // namespace leeway::cli
