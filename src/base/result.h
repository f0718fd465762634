// Result<T>: a value, or one sentence about what went wrong and what to do about it. g++ 12 has no
// std::expected; this is the part of it that we use.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace leeway {

// kFailed: a file, disk or network failed, exit status 1. kUsage: the user's mistake, exit
// status 2. kInterrupted: a signal ended the work early, exit status 128 plus its number.
enum class ErrorKind { kFailed, kUsage, kInterrupted };

struct Error {
  std::string message;
  ErrorKind kind = ErrorKind::kFailed;
};

inline Error usage_error(std::string message) {
  return Error{std::move(message), ErrorKind::kUsage};
}

inline Error stopped_error(std::string message) {
  return Error{std::move(message), ErrorKind::kInterrupted};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    LEEWAY_CHECK(ok(), error_message());
    return std::get<0>(state_);
  }
  const T& value() const& {
    LEEWAY_CHECK(ok(), error_message());
    return std::get<0>(state_);
  }
  T&& value() && {
    LEEWAY_CHECK(ok(), error_message());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    LEEWAY_CHECK(!ok(), "error() called on a successful result");
    return std::get<1>(state_);
  }

 private:
  std::string error_message() const { return ok() ? "" : std::get<1>(state_).message; }

  std::variant<T, Error> state_;
};

// Success, or an error: a Result without a value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit, as for Result

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    LEEWAY_CHECK(!ok(), "error() called on a successful status");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace leeway

// Returns the error from the enclosing function, if there is one.
#define LEEWAY_TRY(expression)                                                                \
  do {                                                                                        \
    if (auto leeway_status = (expression); !leeway_status.ok()) return leeway_status.error(); \
  } while (false)

// LEEWAY_ASSIGN(auto file, open(path)): takes the value, or returns the error.
#define LEEWAY_CONCAT_INNER(a, b) a##b
#define LEEWAY_CONCAT(a, b) LEEWAY_CONCAT_INNER(a, b)
#define LEEWAY_ASSIGN(declaration, expression) \
  LEEWAY_ASSIGN_INNER(LEEWAY_CONCAT(leeway_result_, __LINE__), declaration, expression)
#define LEEWAY_ASSIGN_INNER(result, declaration, expression) \
  auto result = (expression);                                \
  if (!result.ok()) return result.error();                   \
  declaration = std::move(result).value()
