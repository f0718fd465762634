#include "tokenizers/hf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace leeway {
namespace {

using Json = nlohmann::json;

// The value of a key, null if absent.
const Json& at(const Json& json, const char* key) {
  static const Json null;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? *found : null;
}

std::string text_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

bool flag_at(const Json& json, const char* key, bool absent = false) {
  const Json& value = at(json, key);
  return value.is_boolean() ? value.get<bool>() : absent;
}

Error refuse(const std::string& where, const std::string& what) {
  return Error{fmt::format("{}: {} is not supported", where, what)};
}

Status check_model(const Json& model, const std::string& where) {
  const std::string type = text_at(model, "type");
  // Files from before 2021 leave the type out; only BPE has a list of merges.
  if (type != "BPE" && !(type.empty() && model.contains("merges"))) {
    return refuse(where, fmt::format("a tokenizer model of type '{}' (only BPE)", type));
  }
  if (const Json& dropout = at(model, "dropout"); dropout.is_number() && dropout != 0.0) {
    return refuse(where, "BPE dropout");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!text_at(model, affix).empty()) return refuse(where, fmt::format("'{}'", affix));
  }
  return {};
}

Status read_split(const Json& split, const std::string& where, BytePairModel& model) {
  const std::string pattern = text_at(at(split, "pattern"), "Regex");
  if (pattern.empty()) return refuse(where, "a Split by anything but a regular expression");
  if (text_at(split, "behavior") != "Isolated") {
    return refuse(where,
                  fmt::format("Split behavior '{}' (only Isolated)", text_at(split, "behavior")));
  }
  if (flag_at(split, "invert")) return refuse(where, "an inverted Split");
  if (model.split == SplitKind::kPattern) return refuse(where, "more than one Split");
  model.split = SplitKind::kPattern;
  model.pattern = pattern;
  return {};
}

Status read_byte_level(const Json& json, const std::string& where, BytePairModel& model) {
  model.add_prefix_space = flag_at(json, "add_prefix_space", true);
  const bool split_before = model.split == SplitKind::kPattern;
  if (split_before && model.add_prefix_space) {
    return refuse(where, "ByteLevel with add_prefix_space after a Split");
  }
  if (!flag_at(json, "use_regex", true)) return {};
  if (split_before) return refuse(where, "ByteLevel with use_regex after a Split");
  model.split = SplitKind::kGpt2;
  return {};
}

Status read_pre_tokenizer(const Json& json, const std::string& where, BytePairModel& model) {
  model.split = SplitKind::kWhole;
  // Pointers, because copying JSON that is nested a million deep would exhaust the stack.
  std::vector<const Json*> steps;
  if (text_at(json, "type") == "Sequence") {
    for (const Json& step : at(json, "pretokenizers")) steps.push_back(&step);
  } else {
    steps.push_back(&json);
  }
  bool byte_level = false;
  for (const Json* const at_step : steps) {
    const Json& step = *at_step;
    const std::string type = text_at(step, "type");
    if (byte_level) return refuse(where, fmt::format("pre_tokenizer '{}' after ByteLevel", type));
    if (type == "Split") {
      LEEWAY_TRY(read_split(step, where, model));
    } else if (type == "ByteLevel") {
      LEEWAY_TRY(read_byte_level(step, where, model));
      byte_level = true;
    } else {
      return refuse(where,
                    fmt::format("pre_tokenizer '{}' (only ByteLevel, or Split and ByteLevel)",
                                type.empty() ? "none" : type));
    }
  }
  if (!byte_level) return refuse(where, "BPE that is not byte-level (no ByteLevel pre_tokenizer)");
  return {};
}

// Printing nests as deep as the value does, and a value can be a whole vocabulary.
std::string shown(const Json& item) {
  const auto nested = [](const Json& inner) { return inner.is_structured(); };
  if (item.is_structured() && (item.size() > 4 || std::any_of(item.begin(), item.end(), nested))) {
    return item.is_array() ? "a list" : "an object";
  }
  return item.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::vector<NamedMerge>> read_merges(const Json& json, const std::string& where) {
  const auto not_a_merge = [&](const Json& item) {
    return Error{fmt::format("{}: {} is not a merge; \"a b\" or [\"a\", \"b\"] expected", where,
                             shown(item))};
  };
  if (!json.is_array()) return not_a_merge(json);
  std::vector<NamedMerge> merges;
  for (const Json& item : json) {
    if (item.is_string()) {
      const auto& text = item.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string::npos) return not_a_merge(item);
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else {
      const bool pair =
          item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string();
      if (!pair) return not_a_merge(item);
      merges.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
    }
  }
  return merges;
}

Status read_added_tokens(const Json& json, const std::string& where, BytePairModel& model) {
  for (const Json& added : json) {
    const std::string name = text_at(added, "content");
    const Json& id = at(added, "id");
    if (name.empty() || !id.is_number_unsigned()) {
      return Error{fmt::format("{}: an added token has no content or no id", where)};
    }
    // It would have to be searched for in the text; without that, ids would silently differ.
    if (!flag_at(added, "special")) {
      return refuse(where, fmt::format("added token '{}', which is not special,", name));
    }
    LEEWAY_TRY(add_special(name, id.get<uint64_t>(), where, model));
  }
  for (const char* marker : {"<|endoftext|>", "<|end_of_text|>", "</s>"}) {
    for (const Json& added : json) {
      if (text_at(added, "content") != marker || model.document_marker) continue;
      model.document_marker = static_cast<TokenId>(at(added, "id").get<uint64_t>());
    }
  }
  return {};
}

}  // namespace

Result<TokenNames> read_token_names(const Json& json, const std::string& where) {
  if (!json.is_object()) {
    return Error{where + " has no vocabulary: {\"token\": id, ...} expected"};
  }
  TokenNames names;
  for (const auto& [name, id] : json.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX) {
      return Error{fmt::format("{}: the id of token '{}' is not a 32-bit number", where, name)};
    }
    names.emplace(name, id.get<TokenId>());
  }
  return names;
}

Result<BytePairModel> parse_hf(const std::string& text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{where + " is not JSON: download it again"};
  const Json& bpe = at(json, "model");
  if (!bpe.is_object()) return Error{where + " has no 'model': it is not a tokenizer.json"};
  LEEWAY_TRY(check_model(bpe, where));
  if (const Json& normalizer = at(json, "normalizer"); !normalizer.is_null()) {
    return refuse(where, fmt::format("normalizer '{}' (normalize the text itself, and set the "
                                     "normalizer to null)",
                                     text_at(normalizer, "type")));
  }
  BytePairModel model;
  model.kind = "hf";
  LEEWAY_TRY(read_pre_tokenizer(at(json, "pre_tokenizer"), where, model));
  LEEWAY_ASSIGN(const TokenNames names, read_token_names(at(bpe, "vocab"), where));
  LEEWAY_TRY(set_tokens(names, where, model));
  LEEWAY_ASSIGN(const std::vector<NamedMerge> merges, read_merges(at(bpe, "merges"), where));
  LEEWAY_TRY(set_merges(merges, names, where, model));
  LEEWAY_TRY(read_added_tokens(at(json, "added_tokens"), where, model));
  model.ignore_merges = flag_at(bpe, "ignore_merges");
  return model;
}

Result<BytePairModel> read_hf_file(const Path& path) {
  LEEWAY_ASSIGN(std::string text, read_text(path));
  LEEWAY_ASSIGN(BytePairModel model, parse_hf(text, path.string()));
  model.json = std::move(text);
  return model;
}

std::string format_hf(const BytePairModel& model) {
  LEEWAY_CHECK(model.split == SplitKind::kGpt2,
               "other splits come from a file, whose text is kept");
  Json vocabulary = Json::object();
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    if (!model.tokens[id].empty()) vocabulary[to_byte_alphabet(model.tokens[id])] = id;
  }
  Json merges = Json::array();
  for (const Merge& merge : model.merges) {
    merges.push_back(to_byte_alphabet(model.tokens[merge.left]) + " " +
                     to_byte_alphabet(model.tokens[merge.right]));
  }
  Json added = Json::array();
  for (const TokenId id : model.specials) {
    added.push_back({{"id", id},
                     {"content", model.tokens[id]},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", model.add_prefix_space},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", model.ignore_merges},
                       {"vocab", vocabulary},
                       {"merges", merges}}}};
  return json.dump() + "\n";
}

}  // namespace leeway
