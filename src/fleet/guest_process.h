// A guest, for the two files that it is made of: how it joins (guest.cpp), and how it trains in a
// session (guest_session.cpp). Others call take_part() (guest.h).
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "config/load.h"
#include "data/dataset.h"
#include "fleet/gate.h"
#include "fleet/guest.h"
#include "fleet/mail.h"
#include "fleet/remote_shards.h"
#include "fleet/session_order.h"
#include "recipe/make_plan.h"
#include "worker/workers.h"

namespace leeway {

class Guest {
 public:
  explicit Guest(const GuestOptions& options) : options_(options) {}
  ~Guest() {
    if (wire_) wire_->close();
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  Result<GuestEnd> run();

 private:
  Status open();
  Status join();
  Status open_data(const std::string& recipe_text);
  Result<GuestEnd> take_places();
  Status train_safely(const SessionOrder& order);  // what is thrown, in words
  Status train(const SessionOrder& order);
  Result<Workers> make_workers(const SessionOrder& order, const MeshData& mesh, const RunPlan& plan,
                               RemoteShards& shards);
  Status load_state(Worker& worker, int64_t session);
  Status follow(Process& process, RemoteShards& shards, std::exception_ptr& failure);
  bool session_is_over() const;
  void send_log(const Path& folder);
  void ask_back();
  void note_reached();
  void miss(ProcessId process);
  void tell_host_of(ProcessId process, NoteKind kind);

  Result<Note> wait_for(NoteKind kind, Nanos host_within);
  Status heed(const News& news);
  Status heed_host(const Note& note);
  void say_it_closes_early();
  void say(const std::string& sentence) const {
    if (options_.said) options_.said(sentence);
  }
  bool interrupted() const { return options_.interrupted && options_.interrupted(); }

  const GuestOptions& options_;
  Mail mail_;
  std::unique_ptr<Wire> wire_;
  Gate gate_{[this](ProcessId to, Parcel parcel) { wire_->send(to, std::move(parcel)); }};
  std::optional<LoadedRecipe> loaded_;
  std::optional<Dataset> data_;
  std::deque<Note> orders_;    // that came while something else was waited for
  int64_t session_ = 0;        // that it is in, or was in last
  bool reached_ = false;       // the host answers
  bool closes_early_ = false;  // the host, or who is in its place, during the handshake
  Nanos silent_since_ = {};    // it has answered before, and does not any more
  std::string refusal_;        // that was said last
  bool forgotten_ = false;
  bool over_ = false;
  bool unfinished_ = false;           // though it is over
  bool told_of_silence_ = false;      // at first, before the host had answered
  std::set<ProcessId> unheard_ = {};  // others, that this process has told the host of
  bool trains_ = false;               // its workers are in a session
  bool goes_on_ = false;              // that goes on under another host

  static constexpr Nanos kGuestLooksUp = {200'000'000};
  static constexpr Nanos kHostBackWithin = {120'000'000'000};  // while there is nothing to do here
};

}  // namespace leeway
