// Random histories of several processes that send each other messages, each with its own log.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "../../support/temporary_folder.h"
#include "events/line_facts.h"
#include "events/merge_logs.h"

namespace leeway {
namespace {

// Writes a log as a process does: the tick of a line only where the clock has jumped.
class Process {
 public:
  void begin(Event first) {
    clock_ = 0;
    expected_ = 1;
    write(first);
  }
  void write(Event event) {
    ++clock_;
    if (clock_ != expected_) event.add("tick", clock_);
    expected_ = clock_ + 1;
    text_ += event.line() + "\n";
  }
  void hear(int64_t sent_at) { clock_ = std::max(clock_, sent_at); }
  int64_t clock() const { return clock_; }
  const std::string& text() const { return text_; }

 private:
  int64_t clock_ = 0;
  int64_t expected_ = 1;
  std::string text_;
};

struct InFlight {
  int64_t message = 0;
  size_t to = 0;
  int64_t sent_at = 0;
};

// Each step, one process writes a line and perhaps sends a message, or takes one and then writes.
void live_through(std::vector<Process>& processes, int64_t& messages) {
  std::vector<InFlight> in_flight;
  const int64_t steps = *rc::gen::inRange<int64_t>(0, 60);
  for (int64_t step = 0; step < steps; ++step) {
    const auto who = *rc::gen::inRange<size_t>(0, processes.size());
    const auto found = std::find_if(in_flight.begin(), in_flight.end(),
                                    [&](const InFlight& each) { return each.to == who; });
    if (found != in_flight.end() && *rc::gen::arbitrary<bool>()) {
      processes[who].hear(found->sent_at);
      processes[who].write(Event("received").add("message", found->message));
      in_flight.erase(found);
      continue;
    }
    processes[who].write(Event("sent").add("message", messages));
    const auto to = *rc::gen::inRange<size_t>(0, processes.size());
    in_flight.push_back({messages++, to, processes[who].clock()});
  }
}

RC_GTEST_PROP(MergeLogs, KeepEachLogsOrderAndPutEverySendBeforeItsReceive, ()) {
  std::vector<Process> processes(*rc::gen::inRange<size_t>(1, 5));
  int64_t messages = 0;
  const int64_t sessions = *rc::gen::inRange<int64_t>(1, 4);
  for (int64_t session = 1; session <= sessions; ++session) {
    processes.front().begin(Event(session == 1 ? "started" : "resumed"));
    for (size_t i = 1; i < processes.size(); ++i) {
      processes[i].begin(Event("joined").add("session", session).add("process", i));
    }
    live_through(processes, messages);
  }
  const TemporaryFolder folder;
  std::vector<Path> logs;
  std::map<std::string, std::vector<std::string>> left;  // lines without their ticks, by log
  for (const Process& process : processes) {
    logs.push_back(folder / ("log" + std::to_string(logs.size())));
    RC_ASSERT(write_atomically(logs.back(), process.text()).ok());
    const auto history = read_events(logs.back());
    for (Event event : history->events) left[logs.back()].push_back(event.remove("tick").line());
  }
  const auto merged = merge_logs(logs, folder / "merged");
  RC_ASSERT(merged.ok());

  std::vector<bool> sent(static_cast<size_t>(messages));
  std::map<std::string, size_t> next;
  int64_t session = 0;
  const auto whole = read_events(folder / "merged");
  for (const Event& event : whole->events) {
    if (event.kind() == "started" || event.kind() == "resumed") ++session;
    if (event.kind() == "joined") RC_ASSERT(event.integer("session") == session);
    if (event.kind() == "sent") sent[static_cast<size_t>(*event.integer("message"))] = true;
    if (event.kind() == "received") RC_ASSERT(sent[static_cast<size_t>(*event.integer("message"))]);
    // Lines of different logs are never equal, but for `sent` and `received` of one message.
    const auto of = std::find_if(left.begin(), left.end(), [&](const auto& log) {
      const size_t at = next[log.first];
      return at < log.second.size() && log.second[at] == event.line();
    });
    RC_ASSERT(of != left.end());
    ++next[of->first];
  }
  for (const auto& [log, lines] : left) RC_ASSERT(next[log] == lines.size());
}

RC_GTEST_PROP(LineFacts, AreThoseThatAParserFinds, ()) {
  Event event(*rc::gen::element<std::string>("work", "joined", "other", "tick"));
  const auto names = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      "tick", "replica", "stage", "a", "\"tick\":4,", "ti\\ck", "session"));
  for (const std::string& name : names) {
    if (name == "tick" || *rc::gen::arbitrary<bool>()) {
      event.add(name, *rc::gen::arbitrary<int64_t>());
    } else {
      event.add(name, *rc::gen::element<std::string>("tick", "\"tick\":3", ",\"tick\":3,", "}"));
    }
  }
  const std::string line = event.line();
  const auto facts = facts_of(line);
  RC_ASSERT(facts.ok());
  RC_ASSERT(facts->tick == event.integer("tick"));
  const auto replica = event.integer("replica");
  const auto stage = event.integer("stage");
  RC_ASSERT(facts->worker.has_value() == (replica && stage));
  std::string text;
  append_without_tick(line, *facts, text);
  RC_ASSERT(text == event.remove("tick").line());
}

}  // namespace
}  // namespace leeway
