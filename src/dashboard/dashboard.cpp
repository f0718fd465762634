#include "dashboard/dashboard.h"

#ifdef LEEWAY_HTTP

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>

#include "dashboard/access.h"
#include "dashboard/http_server.h"
#include "dashboard/live_run.h"
#include "dashboard/metrics.h"
#include "report/report_page.h"

namespace leeway {
namespace {

using namespace std::chrono_literals;
using httplib::Request;
using httplib::Response;

constexpr int kStreamsMax = 4;
constexpr auto kTick = 250ms;    // how often a stream checks for news
constexpr int kQuietTicks = 40;  // ticks without news until a keep-alive
constexpr auto kFarewell = 2s;   // time to send the final state to readers
constexpr const char* kText = "text/plain; charset=utf-8";

// While this lives, new threads block Ctrl-C so that other threads get it. Restores the SIGPIPE
// handler, which httplib replaces.
class SignalsKept {
 public:
  SignalsKept() {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
    ::sigaction(SIGPIPE, nullptr, &pipe_);
  }
  ~SignalsKept() {
    ::sigaction(SIGPIPE, &pipe_, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsKept(const SignalsKept&) = delete;
  SignalsKept& operator=(const SignalsKept&) = delete;

 private:
  sigset_t before_ = {};
  struct sigaction pipe_ = {};
};

void refuse(Response& response, int status, const std::string& sentence) {
  response.status = status;
  response.set_content(sentence + "\n", kText);
}

Error bind_error(int number, const DashboardOptions& options) {
  const std::string port = fmt::format("{} {}", options.port_option, options.port);
  if (number == EADDRINUSE)
    return usage_error(port + ": the port is taken; choose another, or 0 for a free one");
  if (number == EACCES)
    return usage_error(port +
                       ": ports below 1024 need root; choose 1024 or above, or 0 for a "
                       "free one");
  if (number == EADDRNOTAVAIL)
    return usage_error(
        fmt::format("{} is not an address of this machine; choose one that it has", options.host));
  return usage_error(
      fmt::format("cannot listen on {} ({}); name an address of this machine, such as 0.0.0.0 for "
                  "all of them",
                  options.host, number == 0 ? "there is no such address" : std::strerror(number)));
}

class Served final : public Dashboard {
 public:
  Served(const DashboardOptions& options, const Clock& clock) : options_(options), run_(clock) {
    const SignalsKept kept;
    server_ = std::make_unique<HttpServer>(
        clock, [this](const Request& request, Response& response) { answer(request, response); });
  }

  Status begin() {
    port_ = server_->bind(options_.host, options_.port);
    if (port_ < 0) return bind_error(errno, options_);
    const SignalsKept kept;
    server_->start();
    return {};
  }

  ~Served() override {
    run_.last_look();
    {
      std::unique_lock lock(mutex_);
      ending_ = true;
      changed_.notify_all();
      changed_.wait_for(lock, kFarewell, [&] { return streams_ == 0; });
    }
    server_.reset();
  }

  void follow(const Path& run_folder, RunWriter writer) override {
    run_.follow(run_folder, writer);
  }

  std::string address() const override {
    const bool six = options_.host.find(':') != std::string::npos;
    return fmt::format("http://{}{}{}:{}/", six ? "[" : "", options_.host, six ? "]" : "", port_);
  }

  void wait(const std::function<bool()>& stop_wanted) override {
    std::unique_lock lock(mutex_);
    while (!stop_wanted()) changed_.wait_for(lock, kTick);
  }

 private:
  // What one stream has sent.
  struct Sent {
    int64_t number = 0;
    int quiet_ticks = 0;
  };

  void answer(const Request& request, Response& response) {
    // No loading from or sending to other sites, no framing, no caching.
    response.set_header("Content-Security-Policy",
                        "default-src 'none'; style-src 'unsafe-inline'; script-src "
                        "'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action "
                        "'none'; frame-ancestors 'none'");
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
    response.set_header("Cache-Control", "no-store");
    if (!host_allowed(request.get_header_value("Host"), options_.host)) {
      return refuse(response, 403, "Wrong host name for this server; use its address.");
    }
    if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      return refuse(response, 405, "This server is read-only: use GET or HEAD.");
    }
    if (!allowed(request)) {
      response.set_header("WWW-Authenticate", "Bearer");
      return refuse(response, 401,
                    "This server needs its token: append ?token=... to the address, or send the "
                    "header \"Authorization: Bearer ...\".");
    }
    show(request, response);
  }

  bool allowed(const Request& request) const {
    if (options_.token.empty()) return true;
    const std::string header = request.get_header_value("Authorization");
    const std::string parameter = request.get_param_value("token");
    return same_token(bearer_token(header), options_.token) ||
           same_token(parameter, options_.token);
  }

  void show(const Request& request, Response& response) {
    response.status = 200;
    if (request.path == "/events") return stream(request, response);
    if (request.path == "/") {
      const auto snapshot = run_.look();
      response.set_content(report_page(snapshot->runs, {.title = snapshot->title, .live = true}),
                           "text/html; charset=utf-8");
    } else if (request.path == "/data.json") {
      response.set_content(run_.look()->data, "application/json");
    } else if (request.path == "/metrics") {
      response.set_content(metrics_text(run_.look()->runs.front()),
                           "text/plain; version=0.0.4; charset=utf-8");
    } else {
      refuse(response, 404, "Not found. Available: /, /data.json, /events and /metrics.");
    }
  }

  void stream(const Request& request, Response& response) {
    if (request.method == "HEAD") return response.set_content("", "text/event-stream");
    {
      const std::lock_guard lock(mutex_);
      if (ending_ || streams_ == kStreamsMax) {
        return refuse(
            response, 503,
            fmt::format("All {} streams are in use; poll /data.json instead.", kStreamsMax));
      }
      ++streams_;
    }
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, sent = Sent()](size_t, httplib::DataSink& sink) mutable {
          return send_next(sent, sink);
        },
        [this](bool) {
          const std::lock_guard lock(mutex_);
          --streams_;
          changed_.notify_all();
        });
  }

  // Called repeatedly; false: the reader is gone.
  bool send_next(Sent& sent, httplib::DataSink& sink) {
    bool last = false;
    {
      std::unique_lock lock(mutex_);
      if (sent.number > 0) changed_.wait_for(lock, kTick, [&] { return ending_; });
      last = ending_;
    }
    if (!sink.is_writable()) return false;
    const auto snapshot = run_.look();
    std::string text;
    if (snapshot->number != sent.number) {
      text = fmt::format("{}data: {}\n\n", sent.number == 0 ? "retry: 2000\n" : "", snapshot->data);
    } else if (++sent.quiet_ticks % kQuietTicks == 0) {
      text = ": nothing new\n\n";
    }
    sent.number = snapshot->number;
    if (last || snapshot->ended) {
      text +=
          fmt::format("event: ended\ndata: {}\n\n",
                      snapshot->ended ? "The run has ended; this is its final state."
                                      : "The server has stopped; this is the last state it saw.");
    }
    if (!text.empty() && !sink.write(text.data(), text.size())) return false;
    if (last || snapshot->ended) sink.done();
    return true;
  }

  DashboardOptions options_;
  int port_ = 0;
  LiveRun run_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool ending_ = false;
  int streams_ = 0;
  std::unique_ptr<HttpServer> server_;  // last: its threads use the rest
};

}  // namespace

Result<std::unique_ptr<Dashboard>> Dashboard::open(const DashboardOptions& options,
                                                   const Clock& clock) {
  if (options.token.empty() && !is_loopback(options.host)) {
    return usage_error(fmt::format(
        "other machines can reach the dashboard on {}, so it needs a token: name a token file",
        options.host));
  }
  auto served = std::make_unique<Served>(options, clock);
  LEEWAY_TRY(served->begin());
  return std::unique_ptr<Dashboard>(std::move(served));
}

}  // namespace leeway

#else

namespace leeway {

Result<std::unique_ptr<Dashboard>> Dashboard::open(const DashboardOptions& options, const Clock&) {
  return usage_error(options.port_option +
                     ": this program was built without a web server; build it with "
                     "-DLEEWAY_HTTP=ON, or use `leeway report`, which works during a run");
}

}  // namespace leeway

#endif
