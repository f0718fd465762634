#include "drivers/mpi/transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

namespace leeway::mpi {
namespace {

// Forgets those that are done; true: all are.
bool all_done(Communicator& communicator, std::vector<Transfer>& transfers) {
  std::erase_if(transfers, [&](Transfer& transfer) { return communicator.done(transfer); });
  return transfers.empty();
}

[[noreturn]] void refuse(const Way& way, size_t bytes, size_t expected) {
  throw std::runtime_error(fmt::format(
      "rank {} got {} bytes from rank {} and expected {}; start the same build on all machines",
      way.own, bytes, way.peer, expected));
}

}  // namespace

void Departures::begin(Addressed addressed) {
  Departing& departing = departing_.emplace_back();
  departing.addressed = std::move(addressed);
  departing.header = header_of(departing.addressed);
  begin_header(departing);
  std::span<const std::byte> rest = departing.addressed.parcel.bytes;
  while (!rest.empty()) {
    const auto piece = rest.first(std::min(rest.size(), way_.piece_bytes_max));
    departing.transfers.push_back(way_.communicator->send(piece, way_.peer, way_.tag()));
    rest = rest.subspan(piece.size());
  }
}

void Departures::begin_farewell() {
  Departing& departing = departing_.emplace_back();
  departing.header.kind = kFarewell;
  begin_header(departing);
}

void Departures::begin_header(Departing& departing) {
  const auto bytes = std::as_bytes(std::span(&departing.header, 1));
  departing.transfers.push_back(way_.communicator->send(bytes, way_.peer, way_.tag()));
}

bool Departures::look(const Left& left) {
  return std::erase_if(departing_, [&](Departing& departing) {
           if (!all_done(*way_.communicator, departing.transfers)) return false;
           if (departing.header.kind != kFarewell) left(departing.addressed.from);
           return true;
         }) > 0;
}

void Arrivals::begin(const Arrival& arrival) {
  if (!arriving_.empty() && !arriving_.back().all_begun()) {
    begin_piece(arrival, arriving_.back());
  } else {
    begin_header(arrival);
  }
}

void Arrivals::begin_header(const Arrival& arrival) {
  ParcelHeader header;
  if (farewell_) refuse(way_, arrival.bytes, 0);
  if (arrival.bytes != sizeof header) refuse(way_, arrival.bytes, sizeof header);
  // It is short, so it has come with the news of it: this does not wait.
  Transfer transfer =
      way_.communicator->receive(arrival, std::as_writable_bytes(std::span(&header, 1)));
  while (!way_.communicator->done(transfer)) {
  }
  if (header.kind == kFarewell) {
    farewell_ = true;
    return;
  }
  auto addressed =
      addressed_by(header, {.from = way_.peer, .to = way_.own, .traffic = way_.traffic});
  if (!addressed.ok()) throw std::runtime_error(addressed.error().message);
  arriving_.push_back({.addressed = std::move(*addressed)});
}

void Arrivals::begin_piece(const Arrival& arrival, Arriving& arriving) {
  const std::span<std::byte> all = arriving.addressed.parcel.bytes;
  const size_t expected = std::min(all.size() - arriving.begun_bytes, way_.piece_bytes_max);
  if (arrival.bytes != expected) refuse(way_, arrival.bytes, expected);
  const auto place = all.subspan(arriving.begun_bytes, expected);
  arriving.transfers.push_back(way_.communicator->receive(arrival, place));
  arriving.begun_bytes += expected;
}

bool Arrivals::look(const Arrived& arrived) {
  bool any = false;
  while (!arriving_.empty()) {
    Arriving& first = arriving_.front();
    if (!first.all_begun() || !all_done(*way_.communicator, first.transfers)) break;
    Addressed addressed = std::move(first.addressed);
    arriving_.pop_front();
    arrived(std::move(addressed));
    any = true;
  }
  return any;
}

}  // namespace leeway::mpi
