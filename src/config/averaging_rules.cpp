#include "config/averaging_rules.h"

#include <cmath>

#include "config/value.h"
#include "config/words.h"

namespace leeway {
namespace {

using Method = AveragingMethod;

constexpr unsigned bit(Method method) { return 1U << static_cast<unsigned>(method); }

constexpr unsigned kSparse = bit(Method::kSparse);
constexpr unsigned kLowbit = bit(Method::kLowbit);
constexpr unsigned kDiloco = bit(Method::kDiloco);
constexpr unsigned kLate = kSparse | kLowbit | kDiloco;  // keeps training during a round

// The methods that use a key; a key that is not listed is used by all methods except none.
struct Users {
  std::string_view path;
  unsigned methods;
};
constexpr Users kUsers[] = {
    {"averaging.fraction", kSparse},
    {"averaging.interval", kLate | bit(Method::kWeights)},
    {"averaging.correction", kSparse | kDiloco},
    {"averaging.ema_start", kSparse | kDiloco},
    {"averaging.ema_end", kSparse | kDiloco},
    {"averaging.outer_rate", kSparse | kDiloco},
    {"averaging.outer_momentum", kSparse | kDiloco},
    {"averaging.merge", kLate},
    {"averaging.lag", kLate},
    {"averaging.deadline_ms", kLate},
    {"averaging.granularity", kSparse},
    {"averaging.threshold", kLowbit},
    {"averaging.smoothing", kLowbit},
    {"averaging.gain", kLowbit},
    {"averaging.gain_smoothing", kLowbit},
};

unsigned users_of(std::string_view path) {
  for (const Users& users : kUsers) {
    if (users.path == path) return users.methods;
  }
  return ~bit(Method::kNone);
}

std::string_view character(Method method) {
  switch (method) {
    case Method::kSparse:
      return "which exchanges weights";
    case Method::kLowbit:
      return "which exchanges all steps";
    case Method::kAllreduce:
      return "which exchanges the gradients of every update and waits for them";
    case Method::kWeights:
      return "which exchanges all weights, takes their mean and waits for it";
    case Method::kDiloco:
      return "which exchanges all weights";
    case Method::kNone:
      return "which exchanges nothing";
  }
  return "";
}

// For example "sparse" or "diloco", with the quotes.
std::string choices(unsigned methods) {
  std::string text;
  for (size_t index = 0; index < kWords<Method>.size(); ++index) {
    const unsigned here = bit(static_cast<Method>(index));
    if ((methods & here) == 0) continue;
    const bool last = (methods & ~(here | (here - 1)) & (bit(Method::kNone) - 1)) == 0;
    if (!text.empty()) text += last ? " or " : ", ";
    text += toml_quoted(kWords<Method>[index]);
  }
  return text;
}

}  // namespace

AveragingOptions averaging_defaults(AveragingMethod method) {
  AveragingOptions usual;  // the defaults of sparse
  usual.method = method;
  if (method == Method::kSparse) return usual;
  usual.fraction = 1;
  usual.correction = Correction::kNone;
  usual.outer_momentum = 0;
  if (method == Method::kLowbit) {
    usual.wire = WireFormat::kTernary;
    return usual;
  }
  usual.merge = MergePolicy::kFixedLag;
  usual.lag = 0;
  if (method == Method::kDiloco) {
    usual.interval = 50;
    usual.correction = Correction::kDelta;
    usual.outer_rate = 0.7;
    usual.outer_momentum = 0.9;
  }
  return usual;
}

std::optional<int64_t> lag_backwards(const Recipe& recipe) {
  constexpr double kRounding = 0.001;  // of an update
  const auto every = static_cast<double>(recipe.pipeline.update_every);
  const double nearest = std::round(recipe.averaging.lag * every);
  if (std::abs(nearest / every - recipe.averaging.lag) >= kRounding) return std::nullopt;
  if (nearest == 0 && recipe.averaging.lag > 0) return std::nullopt;
  return static_cast<int64_t>(nearest);
}

std::optional<Idle> idle_averaging(std::string_view path, const AveragingOptions& averaging) {
  if (!path.starts_with("averaging.") || path == "averaging.method") return std::nullopt;
  const unsigned users = users_of(path);
  if ((users & bit(averaging.method)) == 0)
    return Idle{"averaging.method", character(averaging.method), choices(users)};
  const bool fixed = averaging.merge == MergePolicy::kFixedLag;
  if (path == "averaging.lag" && !fixed)
    return Idle{"averaging.merge", "which merges as soon as a round is done", "\"fixed_lag\""};
  if (path == "averaging.deadline_ms" && fixed)
    return Idle{"averaging.merge", "which waits for all replicas", "\"on_arrival\""};
  if (path.starts_with("averaging.ema_") && averaging.correction != Correction::kEma)
    return Idle{"averaging.correction", "which has no running mean", "\"ema\""};
  if (path == "averaging.threshold" && averaging.wire != WireFormat::kTernary)
    return Idle{"averaging.wire", "which sends every number", "\"ternary\""};
  if (path == "averaging.granularity" && averaging.fraction == 1)
    return Idle{"averaging.fraction", "which exchanges all weights", "a smaller fraction"};
  return std::nullopt;
}

}  // namespace leeway
