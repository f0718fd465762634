#include "model/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "model/views.h"

namespace leeway {
namespace {

struct Entry {
  std::string name;
  at::Tensor view;
  bool is_filler = false;  // a zero bias that only Hugging Face has
};

class EntryList {
 public:
  explicit EntryList(const ModelShape& shape) : shape_(shape) {}

  void add(std::string name, const at::Tensor& view) {
    entries_.push_back({std::move(name), view});
  }

  // GPT-2 only: Hugging Face's model has a bias everywhere.
  void norm(const std::string& name, const NormViews& views) {
    add(name + ".weight", views.weight);
    bias(name, views.bias, views.weight, views.weight.size(0));
  }
  void conv1d(const std::string& name, const LinearViews& views) {
    add(name + ".weight", views.weight.t());
    bias(name, views.bias, views.weight, views.weight.size(0));
  }
  std::vector<Entry> take() { return std::move(entries_); }

 private:
  void bias(const std::string& name, const at::Tensor& view, const at::Tensor& like,
            int64_t count) {
    const at::Tensor values = shape_.bias ? view : at::zeros({count}, like.options());
    entries_.push_back({name + ".bias", values, !shape_.bias});
  }

  const ModelShape& shape_;
  std::vector<Entry> entries_;
};

void add_llama_block(EntryList& list, const ModelShape& shape, const BlockViews& block,
                     const std::string& at) {
  const int64_t kv_rows = shape.kv_heads * shape.head_size();
  const at::Tensor& qkv = block.qkv.weight;
  const at::Tensor& up = block.up.weight;
  list.add(at + "input_layernorm.weight", block.attention_norm.weight);
  list.add(at + "self_attn.q_proj.weight", qkv.narrow(0, 0, shape.width));
  list.add(at + "self_attn.k_proj.weight", qkv.narrow(0, shape.width, kv_rows));
  list.add(at + "self_attn.v_proj.weight", qkv.narrow(0, shape.width + kv_rows, kv_rows));
  list.add(at + "self_attn.o_proj.weight", block.out.weight);
  list.add(at + "post_attention_layernorm.weight", block.mlp_norm.weight);
  list.add(at + "mlp.gate_proj.weight", up.narrow(0, 0, shape.hidden));
  list.add(at + "mlp.up_proj.weight", up.narrow(0, shape.hidden, shape.hidden));
  list.add(at + "mlp.down_proj.weight", block.down.weight);
}

void add_gpt2_block(EntryList& list, const BlockViews& block, const std::string& at) {
  list.norm(at + "ln_1", block.attention_norm);
  list.conv1d(at + "attn.c_attn", block.qkv);
  list.conv1d(at + "attn.c_proj", block.out);
  list.norm(at + "ln_2", block.mlp_norm);
  list.conv1d(at + "mlp.c_fc", block.up);
  list.conv1d(at + "mlp.c_proj", block.down);
}

std::vector<Entry> list_entries(const ModelShape& shape, const StageSlice& slice,
                                const at::Tensor& flat) {
  const bool llama = shape.architecture == Architecture::kLlama;
  LEEWAY_CHECK(llama == (shape.activation == Activation::kSwiglu),
               "the recipe check rejects other pairs");
  LEEWAY_CHECK(!llama || !shape.bias, "the recipe check rejects a llama with biases");
  LEEWAY_CHECK(llama || shape.kv_heads == shape.heads, "the recipe check rejects groups in gpt2");
  const StageViews views = view_stage(flat, shape, slice);
  EntryList list(shape);
  if (slice.embeds) {
    list.add(llama ? "model.embed_tokens.weight" : "transformer.wte.weight", views.embedding);
    if (!llama) list.add("transformer.wpe.weight", views.positions);
  }
  for (size_t i = 0; i < views.blocks.size(); ++i) {
    const int64_t layer = slice.first_layer + static_cast<int64_t>(i);
    if (llama) {
      add_llama_block(list, shape, views.blocks[i], fmt::format("model.layers.{}.", layer));
    } else {
      add_gpt2_block(list, views.blocks[i], fmt::format("transformer.h.{}.", layer));
    }
  }
  if (slice.heads) {
    if (llama) {
      list.add("model.norm.weight", views.final_norm.weight);
    } else {
      list.norm("transformer.ln_f", views.final_norm);
    }
    list.add("lm_head.weight", views.head.weight);
  }
  return list.take();
}

Status check_entry(const Entry& entry, const std::map<std::string, at::Tensor>& tensors) {
  const auto found = tensors.find(entry.name);
  if (found == tensors.end()) {
    if (entry.is_filler) return {};
    return Error{fmt::format("the weights have no tensor {}: is this the file of another model?",
                             entry.name)};
  }
  if (found->second.sizes() != entry.view.sizes()) {
    return Error{fmt::format("tensor {} has the shape [{}] where the model needs [{}]", entry.name,
                             fmt::join(found->second.sizes(), ", "),
                             fmt::join(entry.view.sizes(), ", "))};
  }
  if (entry.is_filler && found->second.count_nonzero().item<int64_t>() != 0) {
    return Error{fmt::format("tensor {} is not zero, but the model has no biases", entry.name)};
  }
  return {};
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> to_hugging_face(const ModelShape& shape,
                                                                const StageSlice& slice,
                                                                const at::Tensor& flat) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (Entry& entry : list_entries(shape, slice, flat)) {
    tensors.emplace_back(std::move(entry.name), std::move(entry.view));
  }
  return tensors;
}

Status from_hugging_face(const ModelShape& shape, const StageSlice& slice,
                         const std::map<std::string, at::Tensor>& tensors, const at::Tensor& flat) {
  const std::vector<Entry> entries = list_entries(shape, slice, flat);
  for (const Entry& entry : entries) LEEWAY_TRY(check_entry(entry, tensors));
  for (const Entry& entry : entries) {
    if (!entry.is_filler) entry.view.copy_(tensors.at(entry.name));
  }
  return {};
}

}  // namespace leeway
