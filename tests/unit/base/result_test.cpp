#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace leeway {
namespace {

Result<int> half_of(int number) {
  if (number % 2 != 0) return Error{std::to_string(number) + " is odd"};
  return number / 2;
}

Status must_be_even(int number) {
  LEEWAY_ASSIGN(const int half, half_of(number));
  static_cast<void>(half);
  return {};
}

Result<int> quarter_of(int number) {
  LEEWAY_ASSIGN(const int half, half_of(number));
  LEEWAY_ASSIGN(const int quarter, half_of(half));
  return quarter;
}

Result<std::string> checked_text(int number, int& calls) {
  ++calls;
  LEEWAY_TRY(must_be_even(number));
  ++calls;
  return std::to_string(number);
}

TEST(Result, IsAValueOrAnError) {
  const Result<int> good = half_of(8);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(*good, 4);
  const Result<int> bad = half_of(7);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message, "7 is odd");
  EXPECT_EQ(bad.error().kind, ErrorKind::kFailed);
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(Result, ValueCanBeChangedInPlace) {
  Result<std::string> result = std::string("a");
  result->append("b");
  *result += "c";
  EXPECT_EQ(result.value(), "abc");
}

TEST(Result, AnErrorMayItselfBeTheValue) {
  // A variant accessed by type would mix the two up; by index it does not.
  const Result<std::string> text = std::string("not an error");
  EXPECT_TRUE(text.ok());
}

TEST(Status, IsOkUnlessItHasAnError) {
  EXPECT_TRUE(Status().ok());
  const Status bad = usage_error("no such flag");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind, ErrorKind::kUsage);
}

TEST(Macros, AssignReturnsTheFirstError) {
  EXPECT_EQ(*quarter_of(12), 3);
  EXPECT_EQ(quarter_of(5).error().message, "5 is odd");
  EXPECT_EQ(quarter_of(6).error().message, "3 is odd");
}

TEST(Macros, TryEvaluatesOnceAndReturns) {
  int calls = 0;
  EXPECT_EQ(*checked_text(4, calls), "4");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(checked_text(3, calls).error().message, "3 is odd");
  EXPECT_EQ(calls, 3);
}

TEST(ResultDeath, ValueOfAnErrorStopsWithItsMessage) {
  EXPECT_DEATH(half_of(7).value(), "internal error.*7 is odd");
  EXPECT_DEATH(half_of(8).error(), "called on a successful result");
  EXPECT_DEATH(Status().error(), "called on a successful status");
}

TEST(CheckDeath, NamesFileConditionAndReason) {
  const int answer = 41;
  EXPECT_DEATH(LEEWAY_CHECK(answer == 42, "the answer is known"),
               "result_test.cpp:[0-9]+: answer == 42 \\(the answer is known\\)");
}

}  // namespace
}  // namespace leeway
