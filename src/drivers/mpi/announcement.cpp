#include "drivers/mpi/announcement.h"

#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"

namespace leeway::mpi {
namespace {

MpiPostOptions post_for(const World& world, std::promise<std::string>& heard) {
  Post::Handlers handlers;
  handlers.received = [&heard](ProcessId, const Parcel& parcel) {
    std::string text(parcel.bytes.size(), '\0');
    std::memcpy(text.data(), parcel.bytes.data(), text.size());
    heard.set_value(std::move(text));
  };
  return {.handlers = {{guest_of(world.rank()), std::move(handlers)}}};
}

}  // namespace

Announcement::Announcement(World& world) : world_(world), post_(world, post_for(world, heard_)) {}

void Announcement::say(const std::string& text) {
  LEEWAY_CHECK(world_.rank() == 0, "the others listen");
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  const std::unique_ptr<Post> endpoint = post_.endpoint(guest_of(0));
  for (int rank = 1; rank < world_.size(); ++rank) {
    endpoint->send(guest_of(rank), {.kind = Parcel::Kind::kFleet, .bytes = bytes});
  }
  endpoint->close();
}

std::string Announcement::hear() {
  LEEWAY_CHECK(world_.rank() != 0, "rank 0 is the one that speaks");
  std::string text = heard_.get_future().get();
  post_.close();
  return text;
}

}  // namespace leeway::mpi
