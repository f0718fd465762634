#include "worker/message.h"

#include <utility>

namespace leeway {
namespace {

constexpr uint32_t kMagic = 0x4c774d39;  // "9MwL" in memory: header format, version 9

struct Header {
  uint32_t magic = kMagic;
  uint8_t kind = 0;
  uint8_t lane = 0;
  uint8_t has_report = 0;
  uint8_t has_table = 0;
  WorkerId from;
  WorkerId to;
  int64_t index = 0;
  int64_t update = 0;
  int64_t payload_bytes = 0;
  int64_t chunk = 0;
  int64_t update_time = 0;
  int64_t stretch = 1;
  int64_t have = 0;
  int64_t since = 0;
  int64_t chained = 0;
  uint64_t chain = 0;
  int64_t parts = 0;    // that follow the payload
  int64_t counted = 0;  // likewise
  int64_t again = 0;    // 0, 1; 2: whole; 3: and mends
  ReplicaSet::Words replicas = {};
  ReplicaSet::Words ended = {};
  Envelope envelope;
};
static_assert(std::is_trivially_copyable_v<Header>);

bool is_address(const WorkerId& id) {
  return id == kCoordinator || (id.replica.value >= 0 && id.stage.value >= 0);
}

Status check(const Header& header) {
  if (header.magic != kMagic) return Error{"not a message of this version"};
  if (header.kind >= kMessageKinds) return Error{"a message has an unknown kind"};
  if (!is_address(header.from) || !is_address(header.to)) {
    return Error{"a message has a negative worker id"};
  }
  if (header.lane >= kLanes) return Error{"a message has an unknown lane"};
  const Envelope& envelope = header.envelope;
  for (const int64_t counter :
       {header.index, header.update, header.payload_bytes, header.chunk, header.update_time,
        header.stretch, header.have, header.since, header.chained, header.parts, header.counted,
        header.again, envelope.table, envelope.incarnation, envelope.epoch, envelope.ends,
        envelope.saves, envelope.tick}) {
    if (counter < 0) return Error{"a message has a negative counter"};
  }
  // No log has so many lines; a clock that stood there could not go on.
  constexpr int64_t kTickMax = int64_t{1} << 53;
  if (envelope.tick > kTickMax) return Error{"a message comes from after the end of time"};
  return {};
}

Result<std::vector<PartId>> read_parts(ByteReader& reader, int64_t count) {
  if (count > static_cast<int64_t>(reader.left() / sizeof(PartId))) {
    return Error{"a message is shorter than it says"};
  }
  std::vector<PartId> parts;
  for (int64_t i = 0; i < count; ++i) {
    const auto part = reader.take<PartId>();
    const bool sound = part.replica.value >= 0 && part.replica.value < ReplicaSet::kReplicasMax &&
                       part.number >= 0 && (parts.empty() || parts.back() < part);
    if (!sound) return Error{"a message has contributions that cannot be"};
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

TrafficClass class_of(MessageKind kind) {
  if (kind <= MessageKind::kSaveAt) return TrafficClass::kPipeline;
  if (kind <= MessageKind::kState) return TrafficClass::kAveraging;
  return TrafficClass::kControl;
}

bool is_reminder(MessageKind kind) {
  return kind == MessageKind::kDeadline || kind == MessageKind::kRemind ||
         kind == MessageKind::kTick;
}

bool is_of_driver(MessageKind kind) {
  return is_reminder(kind) || kind == MessageKind::kStored || kind == MessageKind::kLost;
}

Message round_message(MessageKind kind, WorkerId from, ReplicaId to, const Work& work,
                      const at::Tensor& payload) {
  return {.kind = kind,
          .from = from,
          .to = {.replica = to, .stage = from.stage},
          .index = work.index,
          .update = work.update,
          .payload = payload,
          .payload_bytes = payload.defined() ? static_cast<int64_t>(payload.nbytes()) : 0,
          .lane = work.lane,
          .chunk = work.chunk,
          .replicas = work.replicas};
}

Message ask_message(const RunPlan& plan, Ask wish) {
  Message message = {.kind = MessageKind::kAsk,
                     .from = kCoordinator,
                     .to = kCoordinator,
                     .index = static_cast<int64_t>(wish)};
  message.envelope = {.run = plan.run, .recipe = plan.recipe};
  return message;
}

Message lost_message(WorkerId worker, int64_t incarnation) {
  Message message = {.kind = MessageKind::kLost, .from = worker, .to = kCoordinator};
  message.envelope.incarnation = incarnation;
  return message;
}

std::vector<std::byte> to_bytes(const Message& message) {
  Header header = {.kind = static_cast<uint8_t>(message.kind),
                   .lane = static_cast<uint8_t>(message.lane),
                   .has_report = message.report != nullptr,
                   .has_table = message.table != nullptr,
                   .from = message.from,
                   .to = message.to,
                   .index = message.index,
                   .update = message.update,
                   .payload_bytes = message.payload_bytes,
                   .chunk = message.chunk,
                   .update_time = message.update_time.count,
                   .stretch = message.stretch,
                   .have = message.have,
                   .since = message.since,
                   .chained = message.chained,
                   .chain = message.chain,
                   .parts = std::ssize(message.parts),
                   .counted = std::ssize(message.counted),
                   .again = message.mends   ? 3
                            : message.whole ? 2
                            : message.again ? 1
                                            : 0,
                   .replicas = message.replicas.words(),
                   .ended = message.ended.words(),
                   .envelope = message.envelope};
  ByteWriter writer;
  writer.put(header);
  write_tensor(writer, message.payload);
  for (const PartId& part : message.parts) writer.put(part);
  for (const CountedParts& parts : message.counted) writer.put(parts);
  if (message.report) write_report(writer, *message.report);
  if (message.table) write_membership(writer, *message.table);
  return writer.take();
}

Result<Message> from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Header)) return Error{"a message is shorter than its header"};
  ByteReader reader(bytes);
  const auto header = reader.take<Header>();
  LEEWAY_TRY(check(header));
  Message message = {.kind = static_cast<MessageKind>(header.kind),
                     .from = header.from,
                     .to = header.to,
                     .index = header.index,
                     .update = header.update,
                     .payload_bytes = header.payload_bytes,
                     .lane = static_cast<Lane>(header.lane),
                     .chunk = header.chunk,
                     .update_time = {header.update_time},
                     .stretch = header.stretch,
                     .have = header.have,
                     .chained = header.chained,
                     .chain = header.chain,
                     .since = header.since,
                     .again = header.again != 0,
                     .whole = header.again >= 2,
                     .mends = header.again == 3,
                     .envelope = header.envelope};
  message.replicas = ReplicaSet::of_words(header.replicas);
  message.ended = ReplicaSet::of_words(header.ended);
  LEEWAY_ASSIGN(message.payload, read_tensor(reader));
  LEEWAY_ASSIGN(message.parts, read_parts(reader, header.parts));
  LEEWAY_ASSIGN(message.counted, read_counted(reader, header.counted));
  // What does not count as traffic has no size: clipping sends a few numbers per update.
  const bool fits = !message.payload.defined() || header.payload_bytes == 0 ||
                    header.payload_bytes == static_cast<int64_t>(message.payload.nbytes());
  if (!fits) return Error{"a message's shape does not match its length"};
  if (header.has_report != 0) {
    LEEWAY_ASSIGN(Report report, read_report(reader));
    message.report = std::make_shared<const Report>(std::move(report));
  }
  if (header.has_table != 0) {
    LEEWAY_ASSIGN(Membership table, read_membership(reader));
    message.table = std::make_shared<const Membership>(std::move(table));
  }
  if (!reader.ok()) return Error{"a message is shorter than it says"};
  if (reader.left() > 0) return Error{"a message is longer than it says"};
  return message;
}

}  // namespace leeway
