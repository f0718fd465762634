#include "events/event.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

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

// Collects the values of one flat object while the parser runs. A log has millions of lines;
// building a tree for each would cost more than the rest of reading it.
class FlatObject {
 public:
  using Values = std::vector<std::pair<std::string, Event::Value>>;

  FlatObject() { values.reserve(16); }  // more than a piece of work has

  bool null() { return take({}); }
  bool boolean(bool value) { return take(value); }
  bool number_integer(int64_t value) { return take(value); }
  bool number_unsigned(uint64_t value) {
    if (std::in_range<int64_t>(value)) return take(static_cast<int64_t>(value));
    return refuse();
  }
  bool number_float(double value, const std::string&) { return take(value); }
  bool string(std::string& value) { return take(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not in JSON text
  bool start_object(size_t) { return open(); }
  bool start_array(size_t) { return depth_ > 0 && open(); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (depth_ == 1) name_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

  Values values = {};
  std::string foreign = {};  // the first name whose value has a type that events do not have

 private:
  bool take(Event::Value value) {
    if (depth_ == 1) values.emplace_back(std::move(name_), std::move(value));
    return depth_ > 0;  // a bare number is JSON, but not an object
  }
  bool refuse() {
    if (depth_ == 1 && foreign.empty()) foreign = name_;
    return depth_ > 0;
  }
  bool open() {
    if (depth_ > 0) refuse();
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  std::string name_;
  int depth_ = 0;
};

}  // namespace

Event& Event::put(std::string_view name, Value value) {
  LEEWAY_CHECK(name != kKind, "the constructor sets the kind");
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

Event& Event::remove(std::string_view name) {
  std::erase_if(values_, [&](const auto& pair) { return pair.first == name; });
  return *this;
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
  FlatObject object;
  if (!Json::sax_parse(line, &object)) return Error{"not a JSON object"};
  Event event("");
  bool has_kind = false;
  event.values_.reserve(object.values.size());
  for (auto& [name, value] : object.values) {
    if (name != kKind) {
      event.put(name, std::move(value));
    } else if (auto* kind = std::get_if<std::string>(&value)) {
      event.kind_ = std::move(*kind);
      has_kind = true;
    }
  }
  if (!has_kind) return Error{"\"event\" is missing or not text"};
  if (!object.foreign.empty()) {
    return Error{"\"" + object.foreign + "\" is neither text, number, bool nor null"};
  }
  return event;
}

}  // namespace leeway
