#include "worker/state_transfer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <variant>

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"

namespace leeway {
namespace {

constexpr uint64_t kBuffersMax = 64;

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

at::Tensor tensor_of(std::span<const std::byte> bytes) {
  const at::Tensor tensor = at::empty({std::ssize(bytes)}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace

at::Tensor pack_state(const StageState& state) {
  ByteWriter writer;
  writer.put(state.update);
  writer.put(state.optimizer.updates);
  writer.put(state.optimizer.momentum_product);
  write_tensor(writer, state.weights);
  writer.put(uint64_t{state.optimizer.buffers.size()});
  for (const auto& [name, buffer] : state.optimizer.buffers) {
    writer.put_text(name);
    write_tensor(writer, buffer);
  }
  return tensor_of(writer.take());
}

Result<StageState> unpack_state(const at::Tensor& bytes) {
  ByteReader reader(bytes_of(bytes));
  StageState state;
  state.update = reader.take<int64_t>();
  state.optimizer.updates = reader.take<int64_t>();
  state.optimizer.momentum_product = reader.take<double>();
  if (state.update < 0) return Error{"a state has counters that cannot be"};
  LEEWAY_ASSIGN(state.weights, read_tensor(reader));
  const auto buffers = reader.take<uint64_t>();
  if (buffers > kBuffersMax) return Error{"a state has too many buffers"};
  for (uint64_t i = 0; i < buffers; ++i) {
    std::string name = reader.take_text();
    LEEWAY_ASSIGN(at::Tensor buffer, read_tensor(reader));
    state.optimizer.buffers.emplace_back(std::move(name), std::move(buffer));
  }
  if (!reader.ok() || reader.left() > 0) return Error{"a state is not as long as it says"};
  return state;
}

at::Tensor state_part(const at::Tensor& bytes, int64_t part) {
  const int64_t begin = part * kStatePartBytes;
  const int64_t length = std::min(kStatePartBytes, bytes.numel() - begin);
  const std::span<const std::byte> values =
      bytes_of(bytes).subspan(static_cast<size_t>(begin), static_cast<size_t>(length));
  ByteWriter writer;
  writer.put(hash_bytes(values));
  writer.put_bytes(values);
  return tensor_of(writer.take());
}

at::Tensor part_without_hash(const at::Tensor& part) {
  const bool is_part = part.defined() && part.scalar_type() == at::kByte && part.dim() == 1 &&
                       part.numel() >= static_cast<int64_t>(sizeof(uint64_t));
  if (!is_part) return {};
  ByteReader reader(bytes_of(part));
  const auto hash = reader.take<uint64_t>();
  const std::span<const std::byte> values = reader.take_bytes(reader.left());
  return hash_bytes(values) == hash ? tensor_of(values) : at::Tensor();
}

bool StateDonor::wants_snapshot(int64_t updates) const {
  if (asked_.empty()) return false;
  const bool begins = asked_.begin()->second.update == 0;
  return !snapshot_ || (begins && updates > snapshot_->update + kFresh);
}

void StateDonor::take_snapshot(ShardSaved what, at::Tensor bytes, int64_t size) {
  const int64_t update = what.update;
  snapshot_ = {.what = std::make_shared<const Report>(std::move(what)),
               .update = update,
               .bytes = std::move(bytes),
               .size = size};
}

// A question about another snapshot is answered with the beginning of this one.
int64_t StateDonor::part() const {
  const Question& question = asked_.begin()->second;
  const bool same = snapshot_ && question.update == snapshot_->update &&
                    question.part < state_parts(snapshot_->size);
  return same ? question.part : 0;
}

StateDonor::Answer StateDonor::take_answer() {
  LEEWAY_CHECK(snapshot_ && !asked_.empty(), "a part is asked for, and there is a snapshot");
  Answer answer = {.to = asked_.begin()->first,
                   .what = snapshot_->what,
                   .update = snapshot_->update,
                   .part = part(),
                   .parts = state_parts(snapshot_->size)};
  answer.size = std::min(kStatePartBytes, snapshot_->size - answer.part * kStatePartBytes);
  if (snapshot_->bytes.defined()) answer.bytes = state_part(snapshot_->bytes, answer.part);
  asked_.erase(asked_.begin());
  return answer;
}

void StateReceiver::begin_again() {
  update_ = count_ = 0;
  parts_.clear();
  waits_ = false;
}

void StateReceiver::adopt(const Membership& table, int64_t newest) {
  if (loaded_) return;
  if (table.members().empty()) return donor_.reset();
  uses_own_ = own_ && own_->update + fresh_ >= newest;
  const ReplicaId senior = table.senior();
  const int64_t epoch = table.epoch(senior);
  if (donor_ == senior && donor_epoch_ == epoch) return;
  donor_ = senior;
  donor_epoch_ = epoch;
  begin_again();
}

void StateReceiver::deliver(const Message& message) {
  if (loaded_ || message.from.replica != donor_ || !waits_) return;
  if (message.update != update_ || message.index != count_) {
    if (message.chunk != 0) return;  // of a snapshot that it does not know
    begin_again();
    waits_ = true;
    update_ = message.update;
    count_ = message.index;
    rounds_ = std::get<ShardSaved>(*message.report).rounds;
    chunks_ = std::get<ShardSaved>(*message.report).chunks;
  }
  if (message.chunk != part()) return;  // comes twice
  parts_.push_back(message.payload.defined() ? part_without_hash(message.payload) : at::Tensor());
  waits_ = false;
}

void StateReceiver::reminded(int64_t index) {
  if (index / 2 != asks_) return;
  if (index % 2 == 0) paced_ = true;
  if (index % 2 == 1) again_ = true;
}

bool StateReceiver::ask_due() const {
  if (loaded_ || uses_own_ || !donor_ || complete()) return false;
  return waits_ ? again_ : paced_;
}

int64_t StateReceiver::asked() {
  waits_ = true;
  paced_ = again_ = false;
  return 2 * ++asks_;
}

Result<StageState> StateReceiver::take_state() {
  if (uses_own_) return *own_;
  const at::Tensor bytes = at::cat(parts_);
  return unpack_state(bytes);
}

void StateReceiver::set_loaded(bool well) {
  loaded_ = well;
  const bool was_own = std::exchange(uses_own_, false);
  if (was_own) own_.reset();
  if (!well) begin_again();
  parts_.clear();
}

}  // namespace leeway
