// What neighbouring stages have sent and this worker has not used yet. A message that comes twice
// is filed once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace leeway {

template <class Key>
class Shelf {
 public:
  void put(const Key& key, at::Tensor payload) { tensors_.emplace(key, std::move(payload)); }
  bool has(const Key& key) const { return tensors_.contains(key); }
  // Undefined where nothing was sent: the first stage reads its tokens instead.
  at::Tensor get(const Key& key) const {
    const auto found = tensors_.find(key);
    return found == tensors_.end() ? at::Tensor() : found->second;
  }
  void drop(const Key& key) { tensors_.erase(key); }
  void drop_before(const Key& key) { tensors_.erase(tensors_.begin(), tensors_.lower_bound(key)); }
  std::optional<Key> first() const {
    return tensors_.empty() ? std::nullopt : std::optional(tensors_.begin()->first);
  }
  size_t size() const { return tensors_.size(); }

 private:
  std::map<Key, at::Tensor> tensors_;
};

struct Inbox {
  using EvaluationBatch = std::pair<int64_t, int64_t>;  // update, batch
  Shelf<int64_t> activations;                           // by microbatch
  Shelf<int64_t> gradients;                             // by microbatch
  Shelf<EvaluationBatch> evaluations;
};

}  // namespace leeway
