#include "data/data_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace leeway {
namespace {

constexpr const char* kInfoName = "data.json";
constexpr const char* kFormat = "leeway-data";
constexpr int kVersion = 1;

nlohmann::ordered_json to_json(const DataPart& part) {
  return {{"tokens", part.tokens},
          {"markers", part.markers},
          {"documents", part.documents},
          {"text_bytes", part.text_bytes}};
}

// Throws on a missing key or a wrong type; read_data_info() turns that into an error.
DataPart part_of(const nlohmann::json& json) {
  return {.tokens = json.at("tokens").get<uint64_t>(),
          .markers = json.at("markers").get<uint64_t>(),
          .documents = json.at("documents").get<uint64_t>(),
          .text_bytes = json.at("text_bytes").get<uint64_t>()};
}

DataInfo info_of(const nlohmann::json& json) {
  DataInfo info;
  info.train = part_of(json.at("train"));
  if (json.contains("valid")) info.valid = part_of(json.at("valid"));
  const nlohmann::json& tokenizer = json.at("tokenizer");
  tokenizer.at("kind").get_to(info.tokenizer_kind);
  tokenizer.at("hash").get_to(info.tokenizer_hash);
  tokenizer.at("vocabulary").get_to(info.vocabulary);
  json.at("inputs").get_to(info.inputs);
  json.at("files").get_to(info.files);
  json.at("documents").get_to(info.documents);
  json.at("valid_share").get_to(info.valid_share);
  json.at("seed").get_to(info.seed);
  json.at("fingerprint").get_to(info.fingerprint);
  info.valid_is_tail = json.value("valid_is_tail", false);  // earlier versions wrote neither
  info.notes = json.value("notes", std::vector<std::string>());
  return info;
}

}  // namespace

bool is_data_folder(const Path& folder) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(folder / kInfoName, code)) return false;
  const auto text = read_text(folder / kInfoName);
  if (!text) return false;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("format") && json["format"] == kFormat;
}

Status write_data_info(const Path& folder, const DataInfo& info) {
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"version", kVersion},
                                 {"leeway", LEEWAY_VERSION},
                                 {"train", to_json(info.train)}};
  if (info.valid) json["valid"] = to_json(*info.valid);
  json["tokenizer"] = {{"kind", info.tokenizer_kind},
                       {"hash", info.tokenizer_hash},
                       {"vocabulary", info.vocabulary}};
  json["inputs"] = info.inputs;
  json["files"] = info.files;
  json["documents"] = info.documents;
  json["valid_share"] = info.valid_share;
  json["seed"] = info.seed;
  json["valid_is_tail"] = info.valid_is_tail;
  json["notes"] = info.notes;
  json["fingerprint"] = info.fingerprint;
  // A file name need not be UTF-8; JSON must be.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  return write_atomically(folder / kInfoName, json.dump(2, ' ', false, replace) + "\n");
}

Result<DataInfo> read_data_info(const Path& folder) {
  std::error_code code;
  if (!std::filesystem::exists(folder / kInfoName, code)) {
    return Error{
        fmt::format("{} is not a folder made by `leeway data prepare` (it has no {}); check the "
                    "path, or prepare it",
                    folder.string(), kInfoName)};
  }
  LEEWAY_ASSIGN(const std::string text, read_text(folder / kInfoName));
  const auto damaged = [&](std::string_view why) {
    return Error{fmt::format("{} does not describe prepared data ({}); prepare it again",
                             (folder / kInfoName).string(), why)};
  };
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return damaged("not a JSON object");
  if (!json.contains("format") || json["format"] != kFormat) return damaged("unknown format");
  if (!json.contains("version") || json["version"] != kVersion) return damaged("unknown version");
  try {
    return info_of(json);
  } catch (const nlohmann::json::exception&) {
    return damaged("a value is missing or of the wrong kind");
  }
}

}  // namespace leeway
