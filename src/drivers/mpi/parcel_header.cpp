#include "drivers/mpi/parcel_header.h"

#include <fmt/format.h>

#include <string>

namespace leeway::mpi {

ParcelHeader header_of(const Addressed& addressed) {
  const Parcel& parcel = addressed.parcel;
  return {.from = addressed.from.value,
          .to = addressed.to.value,
          .session = parcel.session,
          .bytes = static_cast<int64_t>(parcel.bytes.size()),
          .kind = static_cast<uint8_t>(parcel.kind),
          .traffic = static_cast<uint8_t>(parcel.traffic)};
}

Result<Addressed> addressed_by(const ParcelHeader& header, const HeaderPlace& place) {
  const auto wrong = [&](const char* what, int64_t value) {
    return Error{fmt::format(
        "rank {} got a parcel from rank {} with {} {}; start the same build on all machines",
        place.to, place.from, what, value)};
  };
  const auto lives_on = [](int64_t process, int rank) {
    return process >= 0 && rank_of({process}) == rank;
  };
  if (!lives_on(header.from, place.from)) return wrong("the sender", header.from);
  if (!lives_on(header.to, place.to)) return wrong("the receiver", header.to);
  if (header.kind >= kParcelKinds) return wrong("the kind", header.kind);
  if (header.traffic != static_cast<uint8_t>(place.traffic)) {
    return wrong("the class", header.traffic);
  }
  if (header.bytes < 0 || header.bytes > kParcelBytesMax) return wrong("the size", header.bytes);
  return Addressed{.from = {header.from},
                   .to = {header.to},
                   .parcel = {.kind = static_cast<Parcel::Kind>(header.kind),
                              .traffic = place.traffic,
                              .session = header.session,
                              .bytes = std::vector<std::byte>(static_cast<size_t>(header.bytes))}};
}

}  // namespace leeway::mpi
