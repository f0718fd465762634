#include "run/settled_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "averaging/lowbit.h"
#include "averaging/merge.h"
#include "averaging/newcomer.h"
#include "averaging/wire.h"
#include "base/human.h"
#include "config/words.h"
#include "recipe/lane_options.h"

namespace leeway {
namespace {

constexpr const char* kUnsent = "averaging_unsent";  // of an earlier version

// Null: it has none.
const at::Tensor* find(const ReplicaState& replica, const std::string& name) {
  return find_buffer(replica.optimizer.buffers, name);
}

// A chunk of a stage, in the whole model's weights.
struct Place {
  size_t stage = 0;
  size_t chunk = 0;
  int64_t begin = 0;
  int64_t values = 0;

  at::Tensor of(const at::Tensor& flat) const { return flat.narrow(0, begin, values); }
  const ChunkPosition& position(const ReplicaState& replica) const {
    return replica.chunks[stage][chunk];
  }
};

// Whether all replicas have the common model, cut in the same way.
bool have_common(const std::vector<ReplicaState>& replicas) {
  const auto& first = replicas.front().chunks;
  int64_t values = 0;
  for (const std::vector<ChunkPosition>& stage : first) values += values_of(stage);
  return values == replicas.front().weights.numel() &&
         std::ranges::all_of(replicas, [&](const ReplicaState& replica) {
           return find(replica, kCommonBuffer) != nullptr &&
                  std::ranges::equal(replica.chunks, first, same_cut);
         });
}

std::vector<Place> places_of(const ReplicaState& replica) {
  std::vector<Place> places;
  int64_t begin = 0;
  for (size_t stage = 0; stage < replica.chunks.size(); ++stage) {
    for (size_t chunk = 0; chunk < replica.chunks[stage].size(); ++chunk) {
      const int64_t values = replica.chunks[stage][chunk].values;
      places.push_back({stage, chunk, begin, values});
      begin += values;
    }
  }
  return places;
}

// Own steps that are not in the newest model, beyond it.
void catch_up(const ReplicaState& newest, const Place& place, const AveragingOptions& options,
              ReplicaId id, ReplicaState& replica) {
  const at::Tensor common = place.of(*find(newest, kCommonBuffer));
  at::Tensor own = place.of(replica.weights) - place.of(*find(replica, kCommonBuffer));
  if (const at::Tensor* const pending = find(replica, kPendingBuffer)) {
    own.add_(place.of(*pending), options.smoothing);
  }
  const CountedParts* const counted = place.position(newest).find(id);
  for (const SentSteps& sent : replica.sent[place.stage]) {
    const bool here = sent.chunk == static_cast<int64_t>(place.chunk);
    if (!here || counted == nullptr) continue;
    const bool in = counted->has(sent.number) || !counted->knows(sent.number);
    if (in) own -= decode_steps(options.wire, sent.payload, place.values, own.scalar_type());
  }
  place.of(replica.weights).copy_(common + own);
  place.of(*find(replica, kCommonBuffer)).copy_(common);
  if (const at::Tensor* const momentum = find(replica, kMomentumBuffer)) {
    place.of(*momentum).copy_(place.of(*find(newest, kMomentumBuffer)));
  }
  if (const at::Tensor* const pending = find(replica, kPendingBuffer)) place.of(*pending).zero_();
}

// Another replica may have been the owner while this one was away.
void give_residual_to_owner(const Place& place, std::vector<ReplicaState>& replicas) {
  ReplicaState& owner = replicas[place.chunk % replicas.size()];
  for (ReplicaState& replica : replicas) {
    const at::Tensor residual = place.of(*find(replica, kResidualBuffer));
    if (&replica == &owner || residual.count_nonzero().item<int64_t>() == 0) continue;
    place.of(*find(owner, kResidualBuffer)).add_(residual);
    residual.zero_();
  }
}

// Returns how many chunks have lost what their owner had yet to say.
int64_t settle_chunks(const Recipe& recipe, std::vector<ReplicaState>& replicas) {
  int64_t lost = 0;
  for (const Place& place : places_of(replicas.front())) {
    const auto answer = [&](const ReplicaState& r) { return place.position(r).answer; };
    const ReplicaState& newest = *std::ranges::max_element(replicas, {}, answer);
    for (size_t r = 0; r < replicas.size(); ++r) {
      ReplicaState& replica = replicas[r];
      const bool behind = answer(replica) < answer(newest);
      if (behind) {
        catch_up(newest, place, recipe.averaging, {static_cast<int64_t>(r)}, replica);
        const at::Tensor residual = place.of(*find(replica, kResidualBuffer));
        lost += residual.count_nonzero().item<int64_t>() > 0 ? 1 : 0;
        residual.zero_();
      }
      place.of(*find(replica, kFlightBuffer)).zero_();
      replica.chunks[place.stage][place.chunk] = place.position(newest);
    }
    give_residual_to_owner(place, replicas);
  }
  for (ReplicaState& replica : replicas) replica.sent.clear();
  return lost;
}

// A file may lack what its method needs.
Status check_buffers(const std::vector<ReplicaState>& replicas,
                     const std::vector<std::string>& names) {
  for (size_t r = 0; r < replicas.size(); ++r) {
    for (const std::string& name : names) {
      if (find(replicas[r], name) != nullptr) continue;
      return Error{fmt::format(
          "the checkpoint has a common model, but replica {} has no {}; use another checkpoint", r,
          name)};
    }
  }
  return {};
}

// What is under way has a size, by the format that it was sent in.
Status check_sent(const std::vector<ReplicaState>& replicas, WireFormat wire) {
  const at::ScalarType type = replicas.front().weights.scalar_type();
  for (const Place& place : places_of(replicas.front())) {
    for (const ReplicaState& replica : replicas) {
      for (const SentSteps& sent : replica.sent[place.stage]) {
        const bool here = sent.chunk == static_cast<int64_t>(place.chunk);
        if (!here || is_encoding(WireFormat::kF32, sent.payload, place.values, type) ||
            is_encoding(wire, sent.payload, place.values, type)) {
          continue;
        }
        return Error{fmt::format(
            "the checkpoint has a contribution under way (number {} of stage {}, chunk {}) that is "
            "not {} values as {}; use another checkpoint",
            sent.number, place.stage, place.chunk, place.values, word_of(wire))};
      }
    }
  }
  return {};
}

// One that was not saved begins as a copy, with tensors of its own, and with no steps of its own.
void make_newcomer(ReplicaState& replica) {
  WeightsAndBuffers state =
      newcomer_from({replica.weights, replica.optimizer.buffers}, NewcomerStarts::kWithDonor);
  replica.weights = state.weights.clone();
  for (auto& [name, buffer] : state.buffers) buffer = buffer.clone();
  replica.optimizer.buffers = std::move(state.buffers);
  replica.sent.assign(replica.sent.size(), {});
}

// Nobody knows which answers each replica has: the common model is what their steps leave of the
// weights, on average.
void begin_anew(const Recipe& recipe, int64_t vocabulary, std::vector<ReplicaState>& replicas) {
  std::vector<at::Tensor> models;
  for (ReplicaState& replica : replicas) {
    const at::Tensor* const common = find(replica, kCommonBuffer);
    const at::Tensor* const unsent = find(replica, kUnsent);
    models.push_back(common != nullptr   ? *common
                     : unsent != nullptr ? replica.weights - *unsent
                                         : replica.weights);
    replica.chunks.clear();
    replica.sent.clear();
  }
  const bool same = std::ranges::all_of(
      models, [&](const at::Tensor& model) { return at::equal(model, models.front()); });
  const at::Tensor model = same ? models.front() : mean_of(models);
  const std::vector<std::string> names = averaging_buffer_names(recipe, vocabulary);
  for (ReplicaState& replica : replicas) {
    replica.optimizer.buffers =
        with_averaging_buffers({replica.weights, replica.optimizer.buffers}, names).buffers;
    *find_buffer(replica.optimizer.buffers, kCommonBuffer) = model.clone();
    find(replica, kFlightBuffer)->zero_();
  }
}

}  // namespace

Result<std::vector<std::string>> settle(SavedRun& saved, const Recipe& recipe) {
  auto& replicas = saved.state.replicas;
  std::vector<std::string> said;
  if (recipe.averaging.method != AveragingMethod::kLowbit || replicas.size() < 2) return said;
  for (const int64_t cloned : saved.cloned) make_newcomer(replicas[static_cast<size_t>(cloned)]);
  if (!have_common(replicas)) {
    begin_anew(recipe, saved.shape.vocabulary, replicas);
    return said;
  }
  LEEWAY_TRY(check_buffers(replicas, averaging_buffer_names(recipe, saved.shape.vocabulary)));
  LEEWAY_TRY(check_sent(replicas, recipe.averaging.wire));
  if (const int64_t lost = settle_chunks(recipe, replicas); lost > 0) {
    said.push_back(
        fmt::format("{} of the common model had been answered after its owner had saved: what "
                    "that owner had yet to say is written off",
                    counted(lost, "chunk")));
  }
  return said;
}

// A replica may have contributed after it had saved: its next contributions have other numbers.
std::vector<ReplicaStart> starts_of(const SavedRun& saved) {
  std::vector<ReplicaStart> starts;
  for (const ReplicaState& replica : saved.state.replicas) {
    const ReplicaId id = {std::ssize(starts)};
    starts.push_back(
        {.update = replica.optimizer.updates, .rounds = replica.rounds, .chunks = replica.chunks});
    for (size_t stage = 0; stage < replica.chunks.size(); ++stage) {
      if (replica.chunks[stage].empty()) continue;
      int64_t& next = starts.back().rounds[stage].front();
      next = std::max(next, newest_counted(replica.chunks[stage], id));
    }
  }
  return starts;
}

}  // namespace leeway
