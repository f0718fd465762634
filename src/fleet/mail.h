// Notes and other news for the thread that acts on them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/time.h"
#include "drivers/loop/post.h"
#include "fleet/note.h"

namespace leeway {

struct News {
  enum class Kind {
    kNote,
    kSilent,  // nothing was heard of this process for too long
    kHeardAgain,
    kForgotten,    // it does not know this one any more
    kKeyRefused,   // it does not let this one in
    kClosesEarly,  // somebody is there, and ends connections during their handshake
    kUnreachable,
    kRefused,  // something was not taken: `text`
    kEnded,    // a process of this machine, whose name is `text`
    kWake,     // for whoever waits
  };
  Kind kind = Kind::kNote;
  ProcessId from = {};
  std::optional<Note> note = {};
  std::string text = {};
};

class Mail {
 public:
  void put(News news) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
    arrived_.notify_one();
  }
  // None: the time is up.
  std::optional<News> take(Nanos at_most) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::nanoseconds(at_most.count),
                      [this] { return !news_.empty(); });
    if (news_.empty()) return std::nullopt;
    News first = std::move(news_.front());
    news_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<News> news_;
};

// Puts everything that is not of a session into a box; `mesh` takes what is.
inline Post::Handlers handlers_for(Mail& mail, std::function<void(ProcessId, Parcel)> mesh) {
  const auto tell = [&mail](News::Kind kind) {
    return [&mail, kind](ProcessId peer) { mail.put({.kind = kind, .from = peer}); };
  };
  Post::Handlers handlers;
  handlers.received = [&mail, mesh = std::move(mesh)](ProcessId from, Parcel parcel) {
    if (parcel.kind == Parcel::Kind::kMesh) return mesh(from, std::move(parcel));
    Result<Note> note = note_from(parcel.bytes);
    if (note.ok()) return mail.put({.from = from, .note = std::move(*note)});
    mail.put({.kind = News::Kind::kRefused, .from = from, .text = note.error().message});
  };
  handlers.silent = tell(News::Kind::kSilent);
  handlers.heard_again = tell(News::Kind::kHeardAgain);
  handlers.forgotten = tell(News::Kind::kForgotten);
  handlers.key_refused = tell(News::Kind::kKeyRefused);
  handlers.closes_early = tell(News::Kind::kClosesEarly);
  handlers.unreachable = tell(News::Kind::kUnreachable);
  handlers.refused = [&mail](const std::string& sentence) {
    mail.put({.kind = News::Kind::kRefused, .text = sentence});
  };
  return handlers;
}

}  // namespace leeway
