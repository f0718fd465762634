#include "events/event.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace leeway {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKind = "event";

Json to_json(const Event::Value& value) {
  return std::visit(
      [](const auto& held) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return held;
      },
      value);
}

// nullopt: an array or an object, or an integer that int64_t cannot hold.
std::optional<Event::Value> from_json(const Json& json) {
  if (json.is_null()) return Event::Value{};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  const bool too_large = json.is_number_unsigned() &&
                         json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (json.is_number_integer() && !too_large) return json.get<int64_t>();
  return std::nullopt;
}

}  // namespace

Event& Event::put(std::string_view name, Value value) {
  LEEWAY_CHECK(name != kKind, "the kind is given to the constructor");
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [&](const auto& pair) { return pair.first == name; });
  if (found != values_.end()) {
    found->second = std::move(value);
  } else {
    values_.emplace_back(name, std::move(value));
  }
  return *this;
}

Event& Event::add(std::string_view name, std::string_view value) {
  return put(name, std::string(value));
}
Event& Event::add(std::string_view name, const char* value) {
  return put(name, std::string(value));
}
Event& Event::add(std::string_view name, double value) {
  return put(name, std::isfinite(value) ? Value(value) : Value());
}

const Event::Value* Event::find(std::string_view name) const {
  for (const auto& [key, value] : values_) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::optional<int64_t> Event::integer(std::string_view name) const {
  const Value* value = find(name);
  const int64_t* held = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return held == nullptr ? std::nullopt : std::optional(*held);
}

std::optional<double> Event::number(std::string_view name) const {
  if (const auto whole = integer(name)) return static_cast<double>(*whole);
  const Value* value = find(name);
  const double* held = value == nullptr ? nullptr : std::get_if<double>(value);
  return held == nullptr ? std::nullopt : std::optional(*held);
}

std::optional<std::string> Event::text(std::string_view name) const {
  const Value* value = find(name);
  const std::string* held = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return held == nullptr ? std::nullopt : std::optional(*held);
}

std::string Event::line() const {
  Json json = {{kKind, kind_}};
  for (const auto& [name, value] : values_) json[name] = to_json(value);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Event> Event::parse(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error{"not a JSON object"};
  const auto kind = json.find(kKind);
  if (kind == json.end() || !kind->is_string()) return Error{"no text under \"event\""};
  Event event(kind->get<std::string>());
  for (const auto& [name, field] : json.items()) {
    if (name == kKind) continue;
    auto value = from_json(field);
    if (!value) return Error{"\"" + name + "\" is neither text, number, bool nor null"};
    event.put(name, std::move(*value));
  }
  return event;
}

}  // namespace leeway
