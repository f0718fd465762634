#include "fleet/directory.h"

#include <algorithm>

namespace leeway {
namespace {

const Error kNoDirectory{"a directory that is damaged"};

bool is_member(const nlohmann::json& json) {
  constexpr std::array<const char*, 3> kTexts = {"name", "address", "key"};
  const auto has_text = [&](const char* name) {
    return json.contains(name) && json[name].is_string();
  };
  return json.is_object() && json.contains("process") && is_whole(json["process"]) &&
         std::ranges::all_of(kTexts, has_text) && json.contains("places") &&
         json["places"].is_array();
}

bool is_list_of_numbers(const nlohmann::json& json, size_t count) {
  return json.is_array() && json.size() == count && std::ranges::all_of(json, is_whole);
}

}  // namespace

const Member* Directory::find(ProcessId id) const {
  const auto found = std::ranges::find(members, id, &Member::id);
  return found == members.end() ? nullptr : &*found;
}

std::optional<ProcessId> Directory::home_of(WorkerId worker) const {
  for (const Member& member : members) {
    if (std::ranges::count(member.places, worker, &Place::worker) > 0) return member.id;
  }
  return std::nullopt;
}

bool Directory::dials(ProcessId from, ProcessId to) const {
  const Member* const one = find(from);
  const Member* const other = find(to);
  if (one == nullptr || other == nullptr || other->address.empty()) return false;
  if (std::ranges::count(turned, std::pair(from, to)) > 0) return true;
  if (std::ranges::count(turned, std::pair(to, from)) > 0) return false;
  return one->address.empty() || from > to;
}

bool Directory::may_speak(ProcessId process, WorkerId worker, int64_t incarnation) const {
  const Member* const member = find(process);
  return member != nullptr && std::ranges::count(member->places, Place{worker, incarnation}) > 0;
}

nlohmann::json to_json(const Directory& directory) {
  nlohmann::json members = nlohmann::json::array();
  for (const Member& member : directory.members) {
    nlohmann::json places = nlohmann::json::array();
    for (const Place& place : member.places) {
      places.push_back({place.worker.replica.value, place.worker.stage.value, place.incarnation});
    }
    members.push_back({{"process", member.id.value},
                       {"name", member.name},
                       {"address", member.address},
                       {"key", member.key},
                       {"places", std::move(places)}});
  }
  nlohmann::json turned = nlohmann::json::array();
  for (const auto& [from, to] : directory.turned) turned.push_back({from.value, to.value});
  return {
      {"number", directory.number}, {"members", std::move(members)}, {"turned", std::move(turned)}};
}

Result<Directory> directory_from(const nlohmann::json& json) {
  const bool sound = json.is_object() && json.contains("number") && is_whole(json["number"]) &&
                     json.contains("members") && json["members"].is_array() &&
                     json.contains("turned") && json["turned"].is_array();
  if (!sound) return kNoDirectory;
  Directory directory = {.number = json["number"].get<int64_t>(), .members = {}};
  for (const nlohmann::json& entry : json["members"]) {
    if (!is_member(entry)) return kNoDirectory;
    Member member = {.id = {entry["process"].get<int64_t>()},
                     .name = entry["name"].get<std::string>(),
                     .address = entry["address"].get<std::string>(),
                     .key = entry["key"].get<std::string>()};
    for (const nlohmann::json& place : entry["places"]) {
      if (!is_list_of_numbers(place, 3)) return kNoDirectory;
      member.places.push_back(
          {.worker = {.replica = {place[0].get<int64_t>()}, .stage = {place[1].get<int64_t>()}},
           .incarnation = place[2].get<int64_t>()});
    }
    directory.members.push_back(std::move(member));
  }
  for (const nlohmann::json& pair : json["turned"]) {
    if (!is_list_of_numbers(pair, 2)) return kNoDirectory;
    directory.turned.push_back({{pair[0].get<int64_t>()}, {pair[1].get<int64_t>()}});
  }
  return directory;
}

}  // namespace leeway
