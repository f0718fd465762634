#include "fleet/mpi_wire.h"

#include <memory>
#include <utility>

namespace leeway {

class MpiWires::MpiWire final : public Wire {
 public:
  MpiWire(const mpi::World& world, ProcessId self, std::unique_ptr<Post> endpoint)
      : world_(world), self_(self), endpoint_(std::move(endpoint)) {}

  void send(ProcessId to, Parcel parcel) override { endpoint_->send(to, std::move(parcel)); }
  void adopt(const Directory&) override {}
  void forget(ProcessId) override {}
  std::optional<Stranger> stranger(ProcessId) const override { return Stranger{}; }
  // The recipe's lines are those of TCP.
  void shape(const NetworkOptions&) override {}
  std::string address() const override { return ""; }
  Heard heard() const override { return {}; }  // nobody is ever silent here

  // A host tells those that have joined. One that has not would wait for it, and all ranks for that
  // one: MPI never says that somebody is gone.
  void close() override {
    Note end(NoteKind::kEnd);
    end.add("reason", "the run is over");
    for (int rank = 0; self_ == kHost && rank < world_.size(); ++rank) {
      endpoint_->send(mpi::guest_of(rank), parcel_of(end));
    }
    endpoint_->close();
  }

 private:
  const mpi::World& world_;
  ProcessId self_;
  std::unique_ptr<Post> endpoint_;
};

MpiWires::MpiWires(mpi::World& world) : world_(world), post_(world, post_options()) {}

mpi::MpiPostOptions MpiWires::post_options() {
  letterboxes_[mpi::guest_of(world_.rank())];
  if (world_.rank() == 0) letterboxes_[kHost];
  mpi::MpiPostOptions options;
  for (auto& [process, letterbox] : letterboxes_) {
    options.handlers[process].received = [&letterbox = letterbox](ProcessId from, Parcel parcel) {
      if (letterbox.handlers.received) return letterbox.handlers.received(from, std::move(parcel));
      letterbox.early.emplace_back(from, std::move(parcel));
    };
  }
  return options;
}

void MpiWires::open(ProcessId self, Post::Handlers handlers) {
  world_.call([&] {
    Letterbox& letterbox = letterboxes_.at(self);
    letterbox.handlers = std::move(handlers);
    for (auto& [from, parcel] : std::exchange(letterbox.early, {})) {
      letterbox.handlers.received(from, std::move(parcel));
    }
  });
}

WireMaker MpiWires::wire(ProcessId self) {
  return [this, self](Post::Handlers handlers) -> Result<std::unique_ptr<Wire>> {
    open(self, std::move(handlers));
    return std::unique_ptr<Wire>(std::make_unique<MpiWire>(world_, self, post_.endpoint(self)));
  };
}

}  // namespace leeway
