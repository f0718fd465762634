#include "worker/message.h"

#include <array>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace leeway {
namespace {

constexpr uint32_t kMagic = 0x4c774d32;  // "2MwL" in memory: header format, version 2
constexpr uint8_t kNoPayload = 0;
constexpr size_t kDimensionsMax = 4;

struct Header {
  uint32_t magic = kMagic;
  uint8_t kind = 0;
  uint8_t type = kNoPayload;
  uint8_t dimensions = 0;
  uint8_t lane = 0;
  std::array<int64_t, 4> worker = {};  // from replica and stage, to replica and stage
  int64_t index = 0;
  int64_t update = 0;
  int64_t payload_bytes = 0;
  std::array<int64_t, kDimensionsMax> sizes = {};
  int64_t chunk = 0;
  std::array<uint64_t, ReplicaSet::kReplicasMax / 64> replicas = {};  // one bit per replica
};
static_assert(std::is_trivially_copyable_v<Header>);

struct WireType {
  uint8_t code;
  at::ScalarType type;
};
constexpr WireType kTypes[] = {
    {1, at::kFloat}, {2, at::kDouble}, {3, at::kBFloat16}, {4, at::kLong}, {5, at::kByte}};

uint8_t code_of(at::ScalarType type) {
  for (const WireType& wire : kTypes) {
    if (wire.type == type) return wire.code;
  }
  LEEWAY_UNREACHABLE("workers send only fp32, fp64, bf16, ids and bytes");
}

Result<at::Tensor> payload_from(const Header& header, std::span<const std::byte> bytes) {
  for (const WireType& wire : kTypes) {
    if (wire.code != header.type) continue;
    if (header.dimensions > kDimensionsMax) return Error{"a message has too many dimensions"};
    const std::vector<int64_t> sizes(header.sizes.begin(),
                                     header.sizes.begin() + header.dimensions);
    int64_t elements = 1;
    for (const int64_t size : sizes) {
      const int64_t most = static_cast<int64_t>(bytes.size());
      if (size < 0 || (size > 0 && elements > most / size)) {
        return Error{"a message's shape does not match its length"};
      }
      elements *= size;
    }
    const auto width = static_cast<int64_t>(c10::elementSize(wire.type));
    if (elements * width != static_cast<int64_t>(bytes.size()) ||
        header.payload_bytes != elements * width) {
      return Error{"a message's shape does not match its length"};
    }
    const at::Tensor tensor = at::empty(sizes, wire.type);
    if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    return tensor;
  }
  return Error{"a message has a payload of unknown type"};
}

}  // namespace

std::vector<std::byte> to_bytes(const Message& message) {
  Header header;
  header.kind = static_cast<uint8_t>(message.kind);
  header.worker = {message.from.replica.value, message.from.stage.value, message.to.replica.value,
                   message.to.stage.value};
  header.index = message.index;
  header.update = message.update;
  header.payload_bytes = message.payload_bytes;
  header.lane = static_cast<uint8_t>(message.lane);
  header.chunk = message.chunk;
  for (const ReplicaId replica : message.replicas.members()) {
    const auto bit = static_cast<uint64_t>(replica.value);
    header.replicas[bit / 64] |= uint64_t{1} << (bit % 64);
  }
  at::Tensor payload;
  if (message.payload.defined()) {
    payload = message.payload.contiguous().cpu();
    LEEWAY_CHECK(payload.dim() <= static_cast<int64_t>(kDimensionsMax), "activations are 3-D");
    header.type = code_of(payload.scalar_type());
    header.dimensions = static_cast<uint8_t>(payload.dim());
    for (int64_t i = 0; i < payload.dim(); ++i) {
      header.sizes[static_cast<size_t>(i)] = payload.size(i);
    }
    header.payload_bytes = static_cast<int64_t>(payload.nbytes());
  }
  const size_t payload_bytes = payload.defined() ? payload.nbytes() : 0;
  std::vector<std::byte> bytes(sizeof header + payload_bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  if (payload_bytes > 0) {
    std::memcpy(bytes.data() + sizeof header, payload.const_data_ptr(), payload_bytes);
  }
  return bytes;
}

Result<Message> from_bytes(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) return Error{"a message is shorter than its header"};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) return Error{"not a message of this version"};
  if (header.kind >= kMessageKinds) return Error{"a message has an unknown kind"};
  for (const int64_t id : header.worker) {
    if (id < 0) return Error{"a message has a negative worker id"};
  }
  if (header.lane >= kLanes) return Error{"a message has an unknown lane"};
  if (header.index < 0 || header.update < 0 || header.payload_bytes < 0 || header.chunk < 0) {
    return Error{"a message has a negative counter"};
  }
  Message message = {.kind = static_cast<MessageKind>(header.kind),
                     .from = {.replica = {header.worker[0]}, .stage = {header.worker[1]}},
                     .to = {.replica = {header.worker[2]}, .stage = {header.worker[3]}},
                     .index = header.index,
                     .update = header.update,
                     .payload = {},
                     .payload_bytes = header.payload_bytes,
                     .lane = static_cast<Lane>(header.lane),
                     .chunk = header.chunk};
  for (int64_t r = 0; r < ReplicaSet::kReplicasMax; ++r) {
    const auto bit = static_cast<uint64_t>(r);
    if ((header.replicas[bit / 64] >> (bit % 64) & 1) != 0) message.replicas.add({r});
  }
  const std::span<const std::byte> rest = bytes.subspan(sizeof header);
  if (header.type == kNoPayload) {
    if (!rest.empty()) return Error{"a message without a payload is longer than its header"};
    return message;
  }
  LEEWAY_ASSIGN(message.payload, payload_from(header, rest));
  return message;
}

}  // namespace leeway
