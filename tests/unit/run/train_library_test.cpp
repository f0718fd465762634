// Leeway as a library: docs/library.md has its example from here.
#include "run/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <thread>

#include "../../support/small_recipe.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using ::testing::HasSubstr;

class TrainLibrary : public testing::Test {
 protected:
  TrainLibrary() { write_small_text(place_ / "text"); }

  Result<LoadedRecipe> load(const std::vector<std::string>& sets = {}) const {
    return small_recipe(place_ / "text", sets);
  }
  TrainOptions options(const std::string& run = "run") const { return {.folder = place_ / run}; }
  // Every failure is an error with a sentence.
  static std::string message(const Result<TrainingSummary>& result) {
    return result.ok() ? "trained" : result.error().message;
  }

  TemporaryFolder place_;
};

TEST_F(TrainLibrary, TrainsAndReturnsTheSummary) {
  std::vector<int64_t> updates;
  TrainOptions options = this->options();
  options.observer.updated = [&](const UpdateReport& report, double) {
    updates.push_back(report.update);
  };
  const auto summary = train(*load(), options);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(summary->finished);
  EXPECT_EQ(summary->updates, 12);
  EXPECT_EQ(updates.size(), 12U);
  EXPECT_EQ(*read_text(place_ / "run" / "summary.json"), summary->json);
}

TEST_F(TrainLibrary, StopsWhenAskedToFromAnotherThreadAndResumes) {
  TrainOptions options = this->options();
  std::function<void(Ask)> ask;
  options.observer.begun = [&](const std::function<void(Ask)>& way) { ask = way; };
  options.observer.updated = [&](const UpdateReport& report, double) {
    if (report.update == 3) std::thread([&] { ask(Ask::kStop); }).join();
  };
  const auto endless = load({"run.updates=1000000"});  // however late the wish is heard
  const auto stopped = train(*endless, options);
  ASSERT_TRUE(stopped.ok()) << stopped.error().message;
  EXPECT_FALSE(stopped->finished);
  EXPECT_GE(stopped->updates, 3);
  ask(Ask::kSave);  // nobody listens any more

  EXPECT_THAT(message(train(*endless, this->options())), HasSubstr("has an unfinished run"));

  options = this->options();
  options.existing = ExistingRun::kResume;
  options.stop_at = stopped->updates + 3;
  const auto resumed = train(*endless, options);
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  EXPECT_EQ(resumed->updates, stopped->updates + 3);
}

TEST_F(TrainLibrary, HasNothingToDoForAFinishedRun) {
  const auto finished = train(*load(), options());
  ASSERT_TRUE(finished.ok()) << finished.error().message;
  TrainOptions options = this->options();
  options.existing = ExistingRun::kResume;
  const auto again = train(*load(), options);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(again->nothing_to_do);
  EXPECT_EQ(again->json, finished->json);
}

TEST_F(TrainLibrary, TrainsARecipeMadeInCode) {
  Recipe recipe;
  recipe.run.updates = 2;
  recipe.run.threads_per_worker = 1;
  recipe.model.architecture = Architecture::kGpt2;  // its activation follows
  recipe.model.layers = 1;
  recipe.model.width = 8;
  recipe.model.heads = 1;
  recipe.model.context = 8;
  recipe.data.train = {(place_ / "text").string()};
  const auto summary = train(recipe, options());
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->updates, 2);

  const auto loaded = check_recipe(recipe);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->recipe.model.activation, Activation::kGelu);
  const auto completed = check_recipe(loaded->recipe);
  ASSERT_TRUE(completed.ok()) << completed.error().message;
  EXPECT_EQ(completed->recipe, loaded->recipe);
}

TEST_F(TrainLibrary, MovesAFinishedRunAsideAndSaysSo) {
  ASSERT_TRUE(train(*load({"run.updates=2"}), options()).ok());
  std::vector<std::string> notes;
  std::string before, taken;
  TrainOptions options = this->options();
  options.observer.noted = [&](const std::string& note) { notes.push_back(note); };
  options.checked = [&]() -> Status {
    before = read_text(place_ / "run" / "config.toml").value();
    return {};
  };
  options.folder_taken = [&]() -> Status {
    taken = read_text(place_ / "run.1" / "config.toml").value();
    return {};
  };
  const auto summary = train(*load({"run.updates=2"}), options);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_THAT(notes, testing::Contains(HasSubstr("moved the earlier run in")));
  EXPECT_FALSE(before.empty());
  EXPECT_EQ(before, taken);
}

TEST_F(TrainLibrary, WhatDoesNotFitIsAnError) {
  EXPECT_THAT(message(train(*load({"data.train=" + (place_ / "nowhere").string()}), options())),
              HasSubstr("nowhere"));
  EXPECT_THAT(message(train(*load({"model.context=4096"}), options())), HasSubstr("context"));
  EXPECT_THAT(message(train(*load({"run.device=cuda:99"}), options())), HasSubstr("cuda:99"));
  for (const std::string driver : {"zmq", "mpi"})
    EXPECT_THAT(message(train(*load({"run.driver=" + driver}), options())),
                HasSubstr("is for many processes, and train() is one"));
  EXPECT_THAT(message(train(*load(), {})), HasSubstr("no folder"));

  TrainOptions backwards = options();
  backwards.stop_at = -1;
  EXPECT_THAT(message(train(*load(), backwards)), HasSubstr("cannot stop at update -1"));

  TrainOptions resuming = options();
  resuming.existing = ExistingRun::kResume;
  EXPECT_THAT(message(train(*load(), resuming)), HasSubstr("has no run to resume"));
  EXPECT_FALSE(std::filesystem::exists(place_ / "run"));
}

TEST_F(TrainLibrary, AFolderThatCannotBeMadeIsAnError) {
  write_data(place_ / "file", "not a folder");
  EXPECT_THAT(message(train(*load(), options("file/run"))), HasSubstr("file"));
  EXPECT_THAT(message(train(*load(), {.folder = "/proc/run"})), HasSubstr("/proc/"));
}

// Values that no file could have set are found before they can do harm.
TEST_F(TrainLibrary, ARecipeSpoiledInCodeIsAnError) {
  LoadedRecipe spoiled = *load();
  spoiled.recipe.mesh.replicas = 0;
  EXPECT_THAT(message(train(spoiled, options())), HasSubstr("mesh.replicas"));
  spoiled = *load();
  spoiled.recipe.model.heads = 3;
  EXPECT_THAT(message(train(spoiled, options())), HasSubstr("heads"));
  spoiled = *load();
  spoiled.recipe.optimizer.rate = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message(train(spoiled, options())), "trained");
  spoiled = *load();
  spoiled.recipe.data.train = {"\xff\n"};
  EXPECT_NE(message(train(spoiled, options())), "trained");

  EXPECT_THAT(message(train(Recipe{}, options())), HasSubstr("data.train"));
  Recipe recipe = load()->recipe;
  recipe.model.width = -8;
  EXPECT_THAT(message(train(recipe, options())), HasSubstr("model.width"));
  EXPECT_FALSE(std::filesystem::exists(place_ / "run"));
}

TEST_F(TrainLibrary, CallbacksMayRefuseAndThrow) {
  TrainOptions options = this->options();
  options.reading = [](uint64_t, uint64_t) { return false; };
  EXPECT_NE(message(train(*load(), options)), "trained");

  options = this->options();
  options.checked = []() -> Status { return Error{"the caller has changed its mind"}; };
  EXPECT_EQ(message(train(*load(), options)), "the caller has changed its mind");
  EXPECT_FALSE(std::filesystem::exists(place_ / "run"));

  options = this->options();
  options.observer.updated = [](const UpdateReport&, double) {
    throw std::runtime_error("the caller's fault");
  };
  EXPECT_EQ(message(train(*load(), options)), "failed: the caller's fault");

  options = this->options();
  options.existing = ExistingRun::kFresh;
  options.observer.begun = [](const auto&) { throw 1; };
  EXPECT_THAT(message(train(*load(), options)), HasSubstr("not an exception"));
}

}  // namespace
}  // namespace leeway
