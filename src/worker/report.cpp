#include "worker/report.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"

namespace leeway {
namespace {

constexpr uint8_t kUndefined = 0;
constexpr size_t kDimensionsMax = 4;
constexpr uint64_t kTensorBytesMax = uint64_t{1} << 40;
// A worker counts a few lanes; more than this is not ours.
constexpr uint64_t kPartsMax = 1024;

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

template <class Value>
void put_optional(ByteWriter& to, const std::optional<Value>& value) {
  to.put(value.has_value());
  to.put(value.value_or(Value{}));
}

template <class Value>
std::optional<Value> take_optional(ByteReader& from) {
  const bool there = from.take<uint8_t>() != 0;
  const Value value = from.take<Value>();
  return there ? std::optional(value) : std::nullopt;
}

void put(ByteWriter& to, const WorkTally& tally) {
  each_number(tally, [&to](const auto& number) { to.put(number); });
  to.put(uint64_t{tally.contributors.size()});
  for (const int64_t count : tally.contributors) to.put(count);
}

Result<WorkTally> take_tally(ByteReader& from) {
  WorkTally tally;
  bool wrong = false;
  each_number(tally, [&]<class Number>(Number& number) {
    number = from.take<Number>();
    if constexpr (std::is_same_v<Number, int64_t>) wrong = wrong || number < -1;
    if constexpr (std::is_same_v<Number, double>) wrong = wrong || !std::isfinite(number);
    if constexpr (std::is_same_v<Number, Nanos>) wrong = wrong || number.count < 0;
  });
  const auto sizes = from.take<uint64_t>();
  if (sizes > ReplicaSet::kReplicasMax) return Error{"a report has too many contributors"};
  for (uint64_t i = 0; i < sizes; ++i) {
    tally.contributors.push_back(from.take<int64_t>());
    wrong = wrong || tally.contributors.back() < 0;
  }
  if (wrong) return Error{"a report has a number that cannot be"};
  return tally;
}

void put(ByteWriter& to, const StageUpdate& update) {
  to.put(update.worker);
  to.put(update.update);
  to.put(update.applied);
  to.put(update.squared_norm);
  put_optional(to, update.total_squared_norm);
  to.put(update.rate_factor);
  put_optional(to, update.loss);
}

StageUpdate take_update(ByteReader& from) {
  StageUpdate update;
  update.worker = from.take<WorkerId>();
  update.update = from.take<int64_t>();
  update.applied = from.take<uint8_t>() != 0;
  update.squared_norm = from.take<double>();
  update.total_squared_norm = take_optional<double>(from);
  update.rate_factor = from.take<double>();
  update.loss = take_optional<double>(from);
  return update;
}

void put(ByteWriter& to, const ShardSaved& saved) {
  to.put(saved.worker);
  to.put(saved.update);
  to.put(saved.checkpoint);
  to.put(saved.last);
  to.put(uint64_t{saved.rounds.size()});
  for (const int64_t round : saved.rounds) to.put(round);
  write_positions(to, saved.chunks);
  to.put(saved.model_hash);
  to.put(saved.bytes);
  to.put_text(saved.file);
  to.put(saved.size);
  to.put(saved.hash);
  to.put_text(saved.error);
  to.put(saved.again);
  to.put(saved.replaced);
}

// Part of a path in somebody's folder: nothing that leads out of it.
bool is_file_name(const std::string& name) {
  return name.find('/') == std::string::npos && name.find('\0') == std::string::npos &&
         name != "." && name != "..";
}

Result<Report> take_saved(ByteReader& from) {
  ShardSaved saved;
  saved.worker = from.take<WorkerId>();
  saved.update = from.take<int64_t>();
  saved.checkpoint = from.take<int64_t>();
  saved.last = from.take<uint8_t>() != 0;
  if (saved.update < 0 || saved.checkpoint < 0) return Error{"a saved state has no update"};
  const auto rounds = from.take<uint64_t>();
  if (rounds > kPartsMax) return Error{"a saved state has too many kinds of rounds"};
  for (uint64_t i = 0; i < rounds; ++i) saved.rounds.push_back(from.take<int64_t>());
  LEEWAY_ASSIGN(saved.chunks, read_positions(from));
  saved.model_hash = from.take<uint64_t>();
  saved.bytes = from.take<PurposeBytes>();
  saved.file = from.take_text();
  saved.size = from.take<uint64_t>();
  saved.hash = from.take<uint64_t>();
  saved.error = from.take_text();
  saved.again = from.take<uint8_t>() != 0;
  saved.replaced = from.take<uint8_t>() != 0;
  if (!is_file_name(saved.file)) return Error{"a saved state is not in its folder"};
  return Report(std::move(saved));
}

Result<Report> take_update_done(ByteReader& from) {
  UpdateDone done = {.update = from.take<int64_t>()};
  if (from.take<uint8_t>() != 0) done.stage = take_update(from);
  LEEWAY_ASSIGN(done.tally, take_tally(from));
  return Report(std::move(done));
}

Result<Report> take_finished(ByteReader& from) {
  Finished finished;
  for (int64_t* number : {&finished.epoch, &finished.updates, &finished.parameters,
                          &finished.versions_peak, &finished.version_bytes}) {
    *number = from.take<int64_t>();
  }
  finished.model_hash = from.take<uint64_t>();
  finished.model_at = from.take<uint64_t>();
  finished.rounds = from.take<RoundCounts>();
  LEEWAY_ASSIGN(finished.tally, take_tally(from));
  return Report(std::move(finished));
}

Result<Report> take_present(ByteReader& from) {
  Present present;
  present.updates = from.take<int64_t>();
  present.begun = from.take<int64_t>();
  present.joins = from.take<uint8_t>() != 0;
  present.loaded = from.take<uint8_t>() != 0;
  present.done = from.take<uint8_t>() != 0;
  LEEWAY_ASSIGN(present.table, read_membership(from));
  present.ends = from.take<int64_t>();
  LEEWAY_ASSIGN(present.tally, take_tally(from));
  return Report(std::move(present));
}

struct Writer {
  ByteWriter& to;
  void operator()(const UpdateDone& done) const {
    to.put(done.update);
    to.put(done.stage.has_value());
    if (done.stage) put(to, *done.stage);
    put(to, done.tally);
  }
  void operator()(const ShardSaved& saved) const { put(to, saved); }
  void operator()(const Present& present) const {
    to.put(present.updates);
    to.put(present.begun);
    to.put(present.joins);
    to.put(present.loaded);
    to.put(present.done);
    write_membership(to, present.table);
    to.put(present.ends);
    put(to, present.tally);
  }
  void operator()(const FlushNamed& named) const {
    to.put(named.ends);
    to.put(named.update);
    to.put(named.for_all);
  }
  void operator()(const Finished& finished) const {
    for (const int64_t number : {finished.epoch, finished.updates, finished.parameters,
                                 finished.versions_peak, finished.version_bytes}) {
      to.put(number);
    }
    to.put(finished.model_hash);
    to.put(finished.model_at);
    to.put(finished.rounds);
    put(to, finished.tally);
  }
  void operator()(const StageEvaluation& evaluation) const { to.put(evaluation); }
};

}  // namespace

void write_tensor(ByteWriter& to, const at::Tensor& tensor) {
  if (!tensor.defined()) return to.put(kUndefined);
  const at::Tensor values = tensor.contiguous().cpu();
  LEEWAY_CHECK(values.dim() <= static_cast<int64_t>(kDimensionsMax), "activations are 3-D");
  to.put(code_of(values.scalar_type()));
  to.put(static_cast<uint8_t>(values.dim()));
  for (const int64_t size : values.sizes()) to.put(size);
  to.put_bytes({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
}

Result<at::Tensor> read_tensor(ByteReader& from) {
  const auto code = from.take<uint8_t>();
  if (code == kUndefined) return at::Tensor();
  for (const WireType& wire : kTypes) {
    if (wire.code != code) continue;
    const auto dimensions = from.take<uint8_t>();
    if (dimensions > kDimensionsMax) return Error{"a message has too many dimensions"};
    std::vector<int64_t> sizes;
    // Without the sizes that are zero: the others must make sense all the same, because strides are
    // made of them.
    uint64_t bytes = c10::elementSize(wire.type);
    bool empty = false;
    for (uint8_t i = 0; i < dimensions; ++i) {
      sizes.push_back(from.take<int64_t>());
      const auto size = static_cast<uint64_t>(sizes.back());
      if (sizes.back() < 0 || (size > 0 && bytes > kTensorBytesMax / size)) {
        return Error{"a message's shape does not match its length"};
      }
      bytes *= std::max<uint64_t>(size, 1);
      empty = empty || size == 0;
    }
    if (empty) bytes = 0;
    if (bytes > from.left()) return Error{"a message's shape does not match its length"};
    const std::span<const std::byte> values = from.take_bytes(bytes);
    if (!from.ok()) return Error{"a message's shape does not match its length"};
    const at::Tensor tensor = at::empty(sizes, wire.type);
    if (!values.empty()) std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size());
    return tensor;
  }
  return Error{"a message has a payload of unknown type"};
}

void write_membership(ByteWriter& to, const Membership& table) {
  to.put(table.number());
  to.put(table.members().words());
  to.put(uint64_t{table.restarts().size()});
  for (const auto& [replica, restart] : table.restarts()) {
    to.put(replica);
    to.put(restart);
  }
  to.put(uint64_t{table.incarnations().size()});
  for (const auto& [worker, incarnation] : table.incarnations()) {
    to.put(worker);
    to.put(incarnation);
  }
}

Result<Membership> read_membership(ByteReader& from) {
  const auto number = from.take<int64_t>();
  const ReplicaSet members = ReplicaSet::of_words(from.take<ReplicaSet::Words>());
  const Error wrong = {"a table has a number that cannot be"};
  Membership::Restarts restarts;
  for (auto left = from.take<uint64_t>(); left > 0; --left) {
    const auto replica = from.take<ReplicaId>();
    const auto restart = from.take<Membership::Restart>();
    const bool negative = restart.epoch < 0 || restart.update < 0;
    if (!from.ok() || replica.value < 0 || negative) return wrong;
    restarts[replica] = restart;
  }
  Membership::Incarnations incarnations;
  for (auto left = from.take<uint64_t>(); left > 0; --left) {
    const auto worker = from.take<WorkerId>();
    const auto incarnation = from.take<int64_t>();
    if (!from.ok() || worker.replica.value < 0 || incarnation < 0) return wrong;
    incarnations[worker] = incarnation;
  }
  return Membership(number, members, std::move(restarts), std::move(incarnations));
}

void write_positions(ByteWriter& to, const std::vector<ChunkPosition>& chunks) {
  to.put(uint64_t{chunks.size()});
  for (const ChunkPosition& chunk : chunks) {
    to.put(chunk.values);
    to.put(chunk.answer);
    to.put(chunk.chain);
    to.put(std::ssize(chunk.counted));
    for (const CountedParts& parts : chunk.counted) to.put(parts);
  }
}

Result<std::vector<ChunkPosition>> read_positions(ByteReader& from) {
  std::vector<ChunkPosition> chunks;
  const auto count = from.take<uint64_t>();
  if (count > kPartsMax) return Error{"a state has too many chunks"};
  for (uint64_t i = 0; i < count; ++i) {
    ChunkPosition& chunk = chunks.emplace_back();
    chunk.values = from.take<int64_t>();
    chunk.answer = from.take<int64_t>();
    chunk.chain = from.take<uint64_t>();
    const auto counted = from.take<ptrdiff_t>();
    LEEWAY_ASSIGN(chunk.counted, read_counted(from, counted));
    if (!is_sound(chunk)) return Error{"a state has a chunk that cannot be"};
  }
  return chunks;
}

Result<std::vector<CountedParts>> read_counted(ByteReader& from, int64_t count) {
  const Error wrong = {"a message has contributions that cannot be"};
  std::vector<CountedParts> counted;
  for (int64_t i = 0; i < count; ++i) {
    counted.push_back(from.take<CountedParts>());
    const bool known = counted.back().replica.value < ReplicaSet::kReplicasMax;
    if (!from.ok() || !known) return wrong;
  }
  if (!is_sound(counted)) return wrong;
  return counted;
}

const WorkTally* tally_in(const Report& report) {
  if (const auto* done = std::get_if<UpdateDone>(&report)) return &done->tally;
  if (const auto* finished = std::get_if<Finished>(&report)) return &finished->tally;
  const auto* const present = std::get_if<Present>(&report);
  return present == nullptr ? nullptr : &present->tally;
}

void write_report(ByteWriter& to, const Report& report) {
  to.put(static_cast<uint8_t>(report.index()));
  std::visit(Writer{to}, report);
}

Result<Report> read_report(ByteReader& from) {
  switch (from.take<uint8_t>()) {
    case 0:
      return take_update_done(from);
    case 1:
      return Report(from.take<StageEvaluation>());
    case 2:
      return take_saved(from);
    case 3: {
      FlushNamed named;
      named.ends = from.take<uint8_t>() != 0;
      named.update = from.take<int64_t>();
      named.for_all = from.take<uint8_t>() != 0;
      return Report(named);
    }
    case 4:
      return take_finished(from);
    case 5:
      return take_present(from);
    default:
      return Error{"a report is of an unknown kind"};
  }
}

}  // namespace leeway
