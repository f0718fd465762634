// What drivers/zmq makes of loopback, in two processes: post_bench speed|trips [ROUNDS [WAY]]
#include "base/process.h"
#include "measure.h"
#if LEEWAY_ZMQ
#include "bare_ways.h"
#include "mailbox_end.h"
#include "two_processes.h"
#endif

#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#if LEEWAY_ZMQ
namespace leeway {
namespace {

constexpr Load kLoad = {.parcels = 128, .parcel_bytes = 4'000'000};
constexpr size_t kSmall = 64;

std::vector<std::byte> filled(size_t bytes) { return std::vector<std::byte>(bytes, std::byte{7}); }

// All that is sent, made beforehand: nobody's parcels are in a cache because they are few.
std::vector<std::vector<std::byte>> all_parcels() {
  std::vector<std::vector<std::byte>> parcels;
  for (int64_t at = 0; at < kLoad.parcels; ++at) parcels.push_back(filled(kLoad.parcel_bytes));
  return parcels;
}

// The sender's last words are its seconds and its processor seconds, the receiver's the latter.
std::string numbers(double seconds, double processor) {
  return fmt::format("{} {}", seconds, processor);
}

// Each side says one small word first, so that no handshake is measured, and the receiver one at
// the end.
template <class Send, class Receive>
std::string sender(const Send& send_all, const Receive& receive_word) {
  const double processor = processor_seconds();
  const double seconds = seconds_of([&] {
    send_all();
    receive_word();
  });
  return numbers(seconds, processor_seconds() - processor);
}

std::array<Part, 2> through_us(bool encrypted) {
  const Part sends = [=](const Channel& other) {
    MailboxEnd end(other, {.self = 1, .encrypted = encrypted});
    std::vector<std::vector<std::byte>> parcels = all_parcels();
    end.send(TrafficClass::kAveraging, filled(kSmall));
    end.wait();
    return sender(
        [&] {
          for (auto& parcel : parcels) end.send(TrafficClass::kAveraging, std::move(parcel));
        },
        [&] { end.wait(); });
  };
  const Part receives = [=](const Channel& other) {
    MailboxEnd end(other, {.self = 0, .encrypted = encrypted});
    end.wait();
    end.send(TrafficClass::kControl, filled(kSmall));
    const double processor = processor_seconds();
    for (int64_t at = 0; at < kLoad.parcels; ++at) {
      if (end.wait().bytes.size() != kLoad.parcel_bytes) std::abort();
    }
    end.send(TrafficClass::kControl, filled(kSmall));
    const double used = processor_seconds() - processor;
    end.close();  // what it said last arrives
    return numbers(0, used);
  };
  return {receives, sends};
}

std::array<Part, 2> through_bare_pair(bool encrypted, size_t at_most) {
  const Part sends = [=](const Channel& other) {
    BarePair pair(other, encrypted, /*dials=*/true);
    const std::vector<std::byte> word = filled(kSmall);
    const std::vector<std::vector<std::byte>> parcels = all_parcels();
    pair.send(word, kSmall);
    pair.receive(kSmall);
    std::string words = sender(
        [&] {
          for (const auto& parcel : parcels) pair.send(parcel, at_most);
        },
        [&] { pair.receive(kSmall); });
    other.tell("bye");
    return words;
  };
  const Part receives = [=](const Channel& other) {
    BarePair pair(other, encrypted, /*dials=*/false);
    const std::vector<std::byte> word = filled(kSmall);
    pair.receive(kSmall);
    pair.send(word, kSmall);
    const double processor = processor_seconds();
    for (int64_t at = 0; at < kLoad.parcels; ++at) pair.receive(kLoad.parcel_bytes);
    pair.send(word, kSmall);
    const double used = processor_seconds() - processor;
    other.hear();
    return numbers(0, used);
  };
  return {receives, sends};
}

std::array<Part, 2> through_tcp() {
  const Part sends = [=](const Channel& other) {
    const BareTcp line(other, /*dials=*/true);
    std::vector<std::byte> word = filled(kSmall);
    const std::vector<std::vector<std::byte>> parcels = all_parcels();
    line.send(word);
    line.receive(word);
    return sender(
        [&] {
          for (const auto& parcel : parcels) line.send(parcel);
        },
        [&] { line.receive(word); });
  };
  const Part receives = [=](const Channel& other) {
    const BareTcp line(other, /*dials=*/false);
    std::vector<std::byte> word = filled(kSmall);
    std::vector<std::byte> buffer = filled(kLoad.parcel_bytes);
    line.receive(word);
    line.send(word);
    const double processor = processor_seconds();
    for (int64_t at = 0; at < kLoad.parcels; ++at) line.receive(buffer);
    line.send(word);
    return numbers(0, processor_seconds() - processor);
  };
  return {receives, sends};
}

// `only`: this way alone, to look at it with a profiler; empty: all.
void measure_speed(const std::string& only, const std::string& way,
                   const std::array<Part, 2>& parts) {
  if (!only.empty() && only != way) return;
  double unused = 0;
  double receiver = 0;
  double seconds = 0;
  double sender = 0;
  const std::array<std::string, 2> words = in_two_processes(parts);
  if (std::sscanf(words[0].c_str(), "%lf %lf", &unused, &receiver) != 2) std::abort();
  if (std::sscanf(words[1].c_str(), "%lf %lf", &seconds, &sender) != 2) std::abort();
  std::printf("{\"way\": \"%s\", \"bytes_per_second\": %.0f, \"processor_seconds_per_gb\": %.3f}\n",
              way.c_str(), kLoad.bytes() / seconds, (sender + receiver) / (kLoad.bytes() * 1e-9));
  std::fflush(stdout);  // before the next fork
}

void measure_speeds(const std::string& only) {
  measure_speed(only, "plain", through_us(/*encrypted=*/false));
  measure_speed(only, "bare pair", through_bare_pair(/*encrypted=*/false, kLoad.parcel_bytes));
  measure_speed(only, "bare frames", through_bare_pair(/*encrypted=*/false, zmq::kFragmentBytes));
  measure_speed(only, "tcp", through_tcp());
  measure_speed(only, "curve", through_us(/*encrypted=*/true));
  measure_speed(only, "bare curve", through_bare_pair(/*encrypted=*/true, kLoad.parcel_bytes));
}

// A ping is answered at once; a part of a round as soon as it is whole, so that there is always
// another one under way.
struct Trips {
  int64_t count = 0;
  bool loaded = false;
  zmq::LineOptions line = {};
};

std::array<Part, 2> round_trips(const Trips& trips) {
  constexpr int64_t kUnderWay = 3;
  constexpr size_t kPartBytes = 16'000'000;
  const Part asks = [=](const Channel& other) {
    MailboxEnd end(other, {.self = 1, .line = trips.line});
    const std::vector<std::byte> part = filled(kPartBytes);
    int64_t parts = 0;
    std::vector<double> times;
    while (static_cast<int64_t>(times.size()) < trips.count) {
      while (trips.loaded && parts < kUnderWay) {
        end.send(TrafficClass::kAveraging, part);
        ++parts;
      }
      const Nanos sent = end.send(TrafficClass::kControl, filled(kSmall));
      MailboxEnd::Received answer = end.wait();
      for (; answer.traffic == TrafficClass::kAveraging; answer = end.wait()) --parts;
      times.push_back((answer.at - sent).seconds());
    }
    other.tell("bye");
    std::ranges::sort(times);
    return numbers(times[times.size() / 2], times[times.size() * 99 / 100]);
  };
  const Part answers = [=](const Channel& other) {
    MailboxEnd end(other, {.self = 0, .line = trips.line, .answers_with = kSmall});
    other.hear();
    return std::string("bye");
  };
  return {answers, asks};
}

void measure_trips(const std::string& name, const Trips& trips) {
  double median = 0;
  double p99 = 0;
  const std::string words = in_two_processes(round_trips(trips))[1];
  if (std::sscanf(words.c_str(), "%lf %lf", &median, &p99) != 2) std::abort();
  std::printf("{\"link\": \"%s\", \"loaded\": %s, \"median\": %.6f, \"p99\": %.6f}\n", name.c_str(),
              trips.loaded ? "true" : "false", median, p99);
  std::fflush(stdout);
}

void measure_all_trips() {
  const zmq::LineOptions slow = {.latency = {40'000'000}, .bytes_per_second = 12.5e6};
  for (const bool loaded : {false, true}) {
    measure_trips("loopback", {.count = 2000, .loaded = loaded});
    measure_trips("100 Mbit/s, 80 ms", {.count = 100, .loaded = loaded, .line = slow});
  }
}

}  // namespace
}  // namespace leeway

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  const int rounds = count > 2 ? std::stoi(words[2]) : 3;
  const std::string only = count > 3 ? words[3] : "";
  if (what != "speed" && what != "trips") {
    std::fputs("post_bench speed|trips [ROUNDS [WAY]]\n", stderr);
    return 2;
  }
  leeway::keep_freed_memory();
  for (int round = 0; round < rounds; ++round) {
    what == "speed" ? leeway::measure_speeds(only) : leeway::measure_all_trips();
  }
}
#else
int main() {
  std::fputs("post_bench: this build has no ZeroMQ\n", stderr);
  return 2;
}
#endif
