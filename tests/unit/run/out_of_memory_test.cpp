// A run that is out of memory says what it was planned to need, and loses nothing.
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "../../support/small_recipe.h"
#include "../../support/temporary_folder.h"
#include "checkpoint/checkpoint_folder.h"
#include "run/failure.h"
#include "run/train.h"

namespace leeway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

template <class Exception>
std::exception_ptr thrown(const Exception& exception) {
  return std::make_exception_ptr(exception);
}

c10::Error cpu_error() {
  return {{"f", "alloc_cpu.cpp", 1},
          "[enforce fail at alloc_cpu.cpp:124] data. DefaultCPUAllocator: can't allocate memory: "
          "you tried to allocate 1000 bytes. Error code 12 (Cannot allocate memory)"};
}

// LibTorch's own allocator, until it is told to have nothing left.
class Exhausted final : public c10::Allocator {
 public:
  Exhausted() : other_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, /*priority=*/1); }
  ~Exhausted() override { c10::SetCPUAllocator(other_, /*priority=*/1); }
  Exhausted(const Exhausted&) = delete;
  Exhausted& operator=(const Exhausted&) = delete;

  c10::DataPtr allocate(size_t bytes) override {
    if (empty) throw cpu_error();
    return other_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return other_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  std::atomic<bool> empty = false;

 private:
  c10::Allocator* other_;
};

class OutOfMemory : public testing::Test {
 protected:
  OutOfMemory() { write_small_text(place_ / "text"); }
  LoadedRecipe recipe(const std::vector<std::string>& sets = {}) const {
    const auto loaded = small_recipe(place_ / "text", sets);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return *loaded;
  }
  TemporaryFolder place_;
};

TEST_F(OutOfMemory, IsToldFromOtherFailures) {
  const auto words = [](const std::exception_ptr& failure) { return failure_of(failure).message; };
  const c10::OutOfMemoryError gpu(c10::SourceLocation{"f", "f.cpp", 1}, "CUDA out of memory.");
  EXPECT_THAT(words(thrown(gpu)), StartsWith("out of GPU memory; lower data.batch"));
  EXPECT_THAT(words(thrown(cpu_error())), StartsWith("out of memory; lower data.batch"));
  EXPECT_THAT(words(thrown(std::bad_alloc())), StartsWith("out of memory; lower data.batch"));
  const c10::Error other(c10::SourceLocation{"f", "f.cpp", 1}, "shapes differ");
  EXPECT_THAT(words(thrown(other)), StartsWith("LibTorch failed: shapes differ"));
  EXPECT_EQ(words(thrown(std::runtime_error("no luck"))), "failed: no luck");
}

TEST_F(OutOfMemory, ComesWithTheTableAndWithWhatToLower) {
  const Recipe recipe = this->recipe().recipe;
  const auto words = [&](const std::exception_ptr& failure, std::optional<int64_t> vocabulary) {
    return failure_of(failure, recipe, vocabulary).message;
  };
  const std::string told = words(thrown(std::bad_alloc()), 257);
  EXPECT_THAT(told, StartsWith("out of memory; what is saved stays. This is what the run was "));
  EXPECT_THAT(told, AllOf(HasSubstr("activations"), HasSubstr("\n     all  ")));
  EXPECT_THAT(told, HasSubstr("\nto go on with less, set pipeline.recompute = true"));
  EXPECT_THAT(words(thrown(std::bad_alloc()), std::nullopt), Not(HasSubstr("activations")));
  EXPECT_EQ(words(thrown(std::runtime_error("no luck")), 257), "failed: no luck");
}

TEST_F(OutOfMemory, OfAWorkerEndsTheRunAndKeepsItsCheckpoints) {
  const LoadedRecipe loaded = recipe({"run.checkpoint_every=2", "run.updates=1000000"});
  TrainOptions options = {.folder = place_ / "run"};
  {
    Exhausted memory;
    options.observer.updated = [&](const UpdateReport&, double) {
      if (!list_checkpoints(place_ / "run/checkpoints").empty()) memory.empty = true;
    };
    const auto summary = train(loaded, options);
    memory.empty = false;
    ASSERT_FALSE(summary.ok());
    EXPECT_EQ(summary.error().kind, ErrorKind::kFailed);
    EXPECT_THAT(summary.error().message,
                AllOf(StartsWith("out of memory; "), HasSubstr("to go on with less, ")));
  }
  const std::vector<Path> saved = list_checkpoints(place_ / "run/checkpoints");
  ASSERT_FALSE(saved.empty());
  options.observer = {};
  options.existing = ExistingRun::kResume;
  const std::string name = saved.back().filename().string();
  options.stop_at = std::stoll(name.substr(name.find('-') + 1)) + 2;
  const auto resumed = train(loaded, options);
  EXPECT_TRUE(resumed.ok()) << resumed.error().message;
}

}  // namespace
}  // namespace leeway
