#include "dashboard/dashboard.h"

#ifdef LEEWAY_HTTP

#include <fmt/format.h>
#include <signal.h>

#include <chrono>

#include "dashboard/access.h"
#include "dashboard/http_server.h"
#include "dashboard/listener.h"
#include "dashboard/live_run.h"
#include "dashboard/metrics.h"
#include "report/report_page.h"

namespace leeway {
namespace {

using namespace std::chrono_literals;
using httplib::Request;
using httplib::Response;

constexpr int kStreamsMax = 4;
constexpr auto kTick = 250ms;    // how often a stream looks
constexpr int kQuietTicks = 40;  // after as many it says that it is still there
constexpr auto kFarewell = 2s;   // for the last words to whoever looks
constexpr const char* kText = "text/plain; charset=utf-8";

// Threads that are made while this lives leave Ctrl-C to the others, and httplib leaves a broken
// pipe to the program: what it does to signals is for servers.
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

class Served final : public Dashboard {
 public:
  Served(const DashboardOptions& options, const Listener& listener, const Clock& clock)
      : options_(options), port_(listener.port), run_(clock) {
    const SignalsKept kept;
    server_ = std::make_unique<HttpServer>(
        listener.socket, clock,
        [this](const Request& request, Response& response) { answer(request, response); });
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
  // Of one stream.
  struct Sent {
    int64_t number = 0;
    int quiet_ticks = 0;
  };

  void answer(const Request& request, Response& response) {
    // Nothing may be loaded from or sent to anywhere else, framed, or kept.
    response.set_header("Content-Security-Policy",
                        "default-src 'none'; style-src 'unsafe-inline'; script-src "
                        "'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action "
                        "'none'; frame-ancestors 'none'");
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
    response.set_header("Cache-Control", "no-store");
    if (!host_allowed(request.get_header_value("Host"), options_.host)) {
      return refuse(response, 403, "This server does not go by that name; use its address.");
    }
    if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      return refuse(response, 405, "This server is only to look at: GET and HEAD.");
    }
    if (!allowed(request)) {
      response.set_header("WWW-Authenticate", "Bearer");
      return refuse(response, 401,
                    "This server wants its token: as ?token=... behind the address, or in a "
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
      refuse(response, 404, "There are /, /data.json, /events and /metrics.");
    }
  }

  void stream(const Request& request, Response& response) {
    if (request.method == "HEAD") return response.set_content("", "text/event-stream");
    {
      const std::lock_guard lock(mutex_);
      if (ending_ || streams_ == kStreamsMax) {
        return refuse(
            response, 503,
            fmt::format("All {} streams are taken; ask for /data.json now and then.", kStreamsMax));
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

  // Called again and again; false: nobody is there any more.
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
      text += fmt::format("event: ended\ndata: {}\n\n",
                          snapshot->ended ? "The run has ended; this is how it ended."
                                          : "The server has ended; this is what it saw last.");
    }
    if (!text.empty() && !sink.write(text.data(), text.size())) return false;
    if (last || snapshot->ended) sink.done();
    return true;
  }

  DashboardOptions options_;
  int port_;
  LiveRun run_;
  std::mutex mutex_;  // guards what follows
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
        "on {} others can reach the dashboard, so it needs a token: name a file that holds one",
        options.host));
  }
  LEEWAY_ASSIGN(const Listener listener,
                listen_on(options.host, options.port, options.port_option));
  return std::unique_ptr<Dashboard>(std::make_unique<Served>(options, listener, clock));
}

}  // namespace leeway

#else

namespace leeway {

Result<std::unique_ptr<Dashboard>> Dashboard::open(const DashboardOptions& options, const Clock&) {
  return usage_error(options.port_option +
                     ": this program was built without a web server; build it with "
                     "-DLEEWAY_HTTP=ON, or look with `leeway report`, which works during a run");
}

}  // namespace leeway

#endif
