#include "config/other_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace leeway {
namespace {

struct Names {
  std::string_view others;  // separated by spaces
  std::string_view keys;    // ours; empty: there is none
  std::string_view remark = {};
};

// One row per key of ours, in the order of keys.cpp.
constexpr Names kNames[] = {
    {"steps max_steps num_steps n_steps total_steps train_steps max_train_steps training_steps "
     "iters max_iters num_iters iterations max_iterations num_iterations num_updates max_updates",
     "run.updates"},
    {"epochs num_epochs n_epochs max_epochs num_train_epochs train_epochs",
     "run.updates or run.tokens", "Leeway counts no epochs"},
    {"max_tokens num_tokens total_tokens train_tokens token_budget", "run.tokens"},
    {"random_seed rng_seed manual_seed", "run.seed"},
    {"dtype torch_dtype bf16 fp16 amp mixed_precision", "run.precision"},
    {"threads num_threads n_threads", "run.threads_per_worker"},
    {"eval_interval eval_steps eval_every eval_freq eval_frequency val_interval val_every "
     "val_check_interval valid_every validate_every",
     "run.evaluate_every"},
    {"eval_iters eval_batches val_batches val_steps eval_samples limit_val_batches",
     "run.evaluate_windows"},
    {"save_interval save_steps save_every save_freq checkpoint_interval checkpoint_steps "
     "ckpt_interval ckpt_every",
     "run.checkpoint_every"},
    {"save_total_limit keep_last max_checkpoints save_top_k", "run.keep"},
    {"out out_dir output output_dir save_dir checkpoint_dir run_dir", "",
     "; the run folder is not part of a recipe: use `leeway train --out DIR`"},

    {"arch model_type", "model.architecture"},
    {"depth layer n_layers num_layers num_hidden_layers num_blocks n_blocks", "model.layers"},
    {"dim model_dim d_model n_embd n_embed embed_dim embedding_dim emb_dim hidden_size",
     "model.width"},
    {"head n_heads num_heads num_attention_heads attention_heads", "model.heads"},
    {"n_kv_heads num_kv_heads num_key_value_heads num_query_groups kv_head", "model.kv_heads"},
    {"hidden_dim ffn_dim ffn_hidden_size ff_dim d_ff mlp_dim intermediate_size", "model.hidden"},
    {"seq_len seq_length sequence_len sequence_length max_seq_len max_seq_length max_length "
     "block_size context_length context_len context_size context_window ctx ctx_len n_ctx "
     "n_positions max_position_embeddings window",
     "model.context"},
    {"hidden_act act_fn activation_function", "model.activation"},
    {"vocab vocab_size vocabulary vocabulary_size", "data.tokenizer",
     "the tokenizer, or the prepared data, sets the size of the vocabulary"},
    {"dropout attn_dropout attention_dropout resid_dropout hidden_dropout embd_pdrop", "",
     "; there is no dropout: leave it out"},
    {"tie_embeddings tie_word_embeddings tied_embeddings", "",
     "; the head is always untied: leave it out"},

    {"dataset data_path data_dir dataset_path train_data train_file train_files train_path",
     "data.train"},
    {"val validation val_data valid_data validation_data eval_data val_file validation_file",
     "data.valid"},
    {"tokenizer_name tokenizer_path tokenizer_file", "data.tokenizer"},
    {"val_split valid_split validation_split val_fraction val_ratio test_size", "data.valid_share"},
    {"batch_size bsz global_batch_size train_batch_size total_batch_size per_device_batch_size "
     "per_device_train_batch_size",
     "data.batch", "in sequences per update and replica"},
    {"microbatch microbatch_size micro_batch_size per_gpu_batch_size",
     "data.batch or pipeline.update_every",
     "a microbatch has data.batch / pipeline.update_every sequences"},

    {"lr base_lr peak_lr max_lr learning_rate max_learning_rate peak_learning_rate",
     "optimizer.rate", "Muon's own, for the matrices, is optimizer.matrix_rate"},
    {"muon_lr matrix_lr", "optimizer.matrix_rate"},
    {"min_lr min_lr_ratio min_learning_rate end_lr final_lr", "optimizer.final",
     "as a share of the peak"},
    {"betas adam_betas", "optimizer.beta1 and optimizer.beta2"},
    {"momentum adam_beta1", "optimizer.beta1"},
    {"adam_beta2", "optimizer.beta2"},
    {"eps adam_eps adam_epsilon", "optimizer.epsilon"},
    {"wd weight_decay l2", "optimizer.decay"},
    {"grad_clip clip_grad clip_norm clip_grad_norm gradient_clip gradient_clipping "
     "gradient_clip_val max_norm max_grad_norm grad_norm_clip",
     "optimizer.clip"},
    {"warmup_steps warmup_iters warmup_updates num_warmup_steps lr_warmup_steps lr_warmup_iters",
     "optimizer.warmup"},
    {"scheduler lr_schedule lr_scheduler lr_scheduler_type lr_decay_style", "optimizer.schedule"},

    {"pp pp_size pp_degree num_stages n_stages pipeline_stages pipeline_parallel_size "
     "pipeline_model_parallel_size",
     "mesh.stages"},
    {"num_workers workers dataloader_num_workers", "", "; data needs no workers: leave it out"},
    {"dp dp_size dp_degree world_size num_replicas n_replicas data_parallel_size", "mesh.replicas"},
    {"grad_accum grad_accum_steps grad_accumulation_steps gradient_accumulation "
     "gradient_accumulation_steps accumulation_steps accumulate_grad_batches num_microbatches",
     "pipeline.update_every", "it splits data.batch and does not enlarge it"},
    {"gradient_checkpointing activation_checkpointing recompute_activations", "pipeline.recompute"},
    {"sync_every local_steps inner_steps sync_interval", "averaging.interval"},
    {"outer_lr outer_learning_rate", "averaging.outer_rate"},
};

std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '_' || c == '-') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (out.size() > 2 && out.back() == 's') out.pop_back();
  return out;
}

bool names_it(std::string_view others, std::string_view wanted) {
  while (!others.empty()) {
    const size_t end = std::min(others.find(' '), others.size());
    if (plain(others.substr(0, end)) == wanted) return true;
    others.remove_prefix(std::min(end + 1, others.size()));
  }
  return false;
}

}  // namespace

std::optional<std::string> other_name_advice(std::string_view name) {
  constexpr size_t kLongest = 64;  // longer names are nobody's
  if (name.empty() || name.size() > kLongest) return std::nullopt;
  const std::string wanted = plain(name);
  for (const Names& names : kNames) {
    if (!names_it(names.others, wanted)) continue;
    if (names.keys.empty()) return std::string(names.remark);
    const std::string remark = names.remark.empty() ? "" : fmt::format(" ({})", names.remark);
    return fmt::format(", did you mean {}?{}", names.keys, remark);
  }
  return std::nullopt;
}

}  // namespace leeway
