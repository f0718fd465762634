// From TOML and --set to values and origins, and every way this can fail.
#include "config/load.h"

#include <gtest/gtest.h>

#include <fstream>

#include "config_testing.h"

namespace leeway {
namespace {

using Kind = Origin::Kind;

TEST(Load, RemembersWhereEachValueCameFrom) {
  const LoadedRecipe loaded = loaded_from("[model]\nwidth = 64\nheads = 2\n", {"model.heads=8"});
  EXPECT_EQ(loaded.recipe.model.width, 64);
  EXPECT_EQ(loaded.recipe.model.heads, 8);
  EXPECT_EQ(loaded.recipe.model.layers, 4);
  EXPECT_EQ(loaded.origin_of("model.width"), (Origin{Kind::kFile, "test.toml", 3}));
  EXPECT_EQ(loaded.origin_of("model.heads"), (Origin{.kind = Kind::kSet}));
  EXPECT_EQ(loaded.origin_of("model.layers"), (Origin{.kind = Kind::kDefault}));
  EXPECT_EQ(origin_text(loaded.origin_of("model.width")), "test.toml:3");
  EXPECT_EQ(origin_text(loaded.origin_of("model.heads")), "--set");
  EXPECT_EQ(origin_text(loaded.origin_of("model.layers")), "default");
}

TEST(Load, TakesTablesInEverySpelling) {
  EXPECT_EQ(loaded_from("model.width = 64").recipe.model.width, 64);
  EXPECT_EQ(loaded_from("model = {width = 64}").recipe.model.width, 64);
  EXPECT_EQ(loaded_from("[model]\r\n\"width\" = 64\r\n").recipe.model.width, 64);
  EXPECT_EQ(loaded_from("[model]").recipe.model.width, 128);
}

TEST(Load, TakesATableInsideATableInEverySpelling) {
  for (const std::string text :
       {"[network]\nemulate.latency_ms = 40", "[network.emulate]\nlatency_ms = 40",
        "network.emulate.latency_ms = 40", "network = {emulate = {latency_ms = 40}}"}) {
    const LoadedRecipe loaded = loaded_from(text);
    EXPECT_EQ(loaded.recipe.network.emulate.latency_ms, 40) << text;
    EXPECT_EQ(loaded.origin_of("network.emulate.latency_ms").kind, Kind::kFile) << text;
  }
  const LoadedRecipe set = loaded_from("[network.emulate]\nloss = 0.1",
                                       {"network.emulate.loss=0.2", "network.listen=tcp://a:7"});
  EXPECT_EQ(set.recipe.network.emulate.loss, 0.2);
  EXPECT_EQ(set.recipe.network.listen, "tcp://a:7");
}

TEST(Load, TakesOneTextForAList) {
  const std::vector<std::string> two = {"a", "b"};
  EXPECT_EQ(loaded_from("").recipe.data.train, std::vector<std::string>{"text.txt"});
  EXPECT_EQ(loaded_from("data.valid = ['a', 'b']").recipe.data.valid, two);
  EXPECT_EQ(loaded_from("", {"data.valid=['a', 'b']"}).recipe.data.valid, two);
  EXPECT_EQ(loaded_from("", {"data.valid=a b"}).recipe.data.valid, std::vector<std::string>{"a b"});
}

TEST(Set, TakesBareWordsAsText) {
  EXPECT_EQ(loaded_from("", {"run.device=cuda:0"}).recipe.run.device, "cuda:0");
  EXPECT_EQ(loaded_from("", {"run.device='cuda:0'"}).recipe.run.device, "cuda:0");
  EXPECT_EQ(loaded_from("", {"data.train=2024"}).recipe.data.train[0], "2024");
  EXPECT_EQ(loaded_from("", {"data.train=true"}).recipe.data.train[0], "true");
  EXPECT_EQ(loaded_from("", {"data.tokenizer=hf:a=b"}).recipe.data.tokenizer, "hf:a=b");
  EXPECT_EQ(loaded_from("", {"optimizer.rate=1e-4"}).recipe.optimizer.rate, 1e-4);
}

TEST(Load, TakesAWordThatBeginsWithADigit) {
  constexpr auto k1f1b = PipelineSchedule::k1f1b;
  EXPECT_EQ(loaded_from("pipeline.schedule = '1f1b'").recipe.pipeline.schedule, k1f1b);
  EXPECT_EQ(loaded_from("", {"pipeline.schedule=1f1b"}).recipe.pipeline.schedule, k1f1b);
  EXPECT_EQ(loaded_from("", {"pipeline.schedule=\"1f1b\""}).recipe.pipeline.schedule, k1f1b);
}

TEST(Load, TakesListsOfNumbers) {
  const std::vector<double> two = {1, 0.5};
  EXPECT_EQ(loaded_from("mesh.stages = 2\nsim.speeds = [1, 0.5]").recipe.sim.speeds, two);
  EXPECT_EQ(loaded_from("mesh.stages = 2", {"sim.speeds=[1, 0.5]"}).recipe.sim.speeds, two);
  EXPECT_TRUE(loaded_from("sim.speeds = [2]", {"sim.speeds=[]"}).recipe.sim.speeds.empty());
}

TEST(Set, LastOneWins) {
  EXPECT_EQ(loaded_from("run.seed = 5", {"run.seed=6", "run.seed=7"}).recipe.run.seed, 7);
}

TEST(Set, AutoResetsWhatTheFileSays) {
  const LoadedRecipe loaded = loaded_from("model.hidden = 7", {"model.hidden=auto"});
  EXPECT_EQ(loaded.recipe.model.hidden, 352);
  EXPECT_FALSE(loaded.is_given("model.hidden"));
  const LoadedRecipe horizon = loaded_from("pipeline.horizon = 5", {"pipeline.horizon=auto"});
  EXPECT_LT(horizon.recipe.pipeline.horizon, 0);
}

// A folder of an earlier version holds every key of its time.
TEST(Load, TakesFormerKeys) {
  const std::string faults = "[sim]\nfaults = [\"coordinator lost at 4\"]";
  EXPECT_EQ(loaded_from(faults).recipe.run.faults,
            std::vector<std::string>{"coordinator lost at 4"});
  const std::string idle = "[sim]\nlost_replica = 0\nlost_at = 0\ncoordinator_lost_at = 0\n";
  EXPECT_TRUE(loaded_from(idle).recipe.run.faults.empty());
  EXPECT_NE(error_of("[sim]\nlost_at = 7").find("write run.faults"), std::string::npos);
}

TEST(LoadError, UnknownKeyInAFile) {
  EXPECT_EQ(error_of("[model]\nwidht = 64"),
            "test.toml:3: unknown key model.widht, did you mean model.width?");
  EXPECT_EQ(error_of("[model]\n\"a\\nb\" = 64").substr(0, 40),
            "test.toml:3: unknown key model.\"a\\u000Ab");
  EXPECT_EQ(error_of("updates = 3"), "test.toml:2: unknown key updates, did you mean run.updates?");
  EXPECT_EQ(error_of("[model]\ncolour = 1").substr(0, 67),
            "test.toml:3: unknown key model.colour; the keys of model are archit");
}

TEST(LoadError, UnknownTableInAFile) {
  EXPECT_EQ(error_of("\n[modle]"), "test.toml:3: unknown table modle, did you mean model?");
  EXPECT_EQ(error_of("[cluster]\nlag = 1"),
            "test.toml:2: unknown table cluster; the tables are run, model, data, optimizer, "
            "mesh, pipeline, averaging, sim, network, "
            "network.emulate");
  EXPECT_EQ(error_of("[model.more]"),
            "test.toml:2: unknown table model.more; the tables are run, model, data, optimizer, "
            "mesh, pipeline, averaging, sim, network, "
            "network.emulate");
}

TEST(LoadError, UnknownNamesInsideATable) {
  EXPECT_EQ(error_of("[network.emulte]"),
            "test.toml:2: unknown table network.emulte, did you mean network.emulate?");
  EXPECT_EQ(error_of("[network]\nemulate.latncy_ms = 4"),
            "test.toml:3: unknown key network.emulate.latncy_ms, did you mean "
            "network.emulate.latency_ms?");
  EXPECT_EQ(error_of("", {"network.latency_ms=4"}),
            "--set network.latency_ms=4: unknown key, did you mean sim.latency_ms or "
            "network.emulate.latency_ms?");
  EXPECT_EQ(error_of("network.emulate = 3"),
            "test.toml:2: network.emulate is a table: set one of its keys, for example "
            "network.emulate.latency_ms");
}

TEST(LoadError, UnknownKeyAfterSet) {
  EXPECT_EQ(error_of("", {"model.widht=64"}),
            "--set model.widht=64: unknown key, did you mean width?");
  EXPECT_EQ(error_of("", {"modle.width=64"}),
            "--set modle.width=64: unknown key, did you mean model.width?");
}

TEST(LoadError, FirstMistakeByLineComesFirst) {
  EXPECT_EQ(error_of("[run]\nsed = 1\n[model]\nwidht = 64"),
            "test.toml:3: unknown key run.sed, did you mean run.seed?");
}

TEST(LoadError, TableForAKeyAndKeyForATable) {
  EXPECT_EQ(error_of("[model.width]\nx = 1"),
            "test.toml:2: model.width is a table, allowed: a whole number from 1 to 65536");
  EXPECT_EQ(error_of("model = 3"),
            "test.toml:2: model is a table: set one of its keys, for example model.architecture");
  EXPECT_EQ(error_of("[[model]]\nwidth = 3"),
            "test.toml:2: model is a table: set one of its keys, for example model.architecture");
  EXPECT_EQ(error_of("", {"mesh=3"}),
            "--set mesh=3: mesh is a table: set one of its keys, for example mesh.stages");
}

TEST(LoadError, NotToml) {
  EXPECT_EQ(error_of("[model]\nwidth 64").substr(0, 30), "test.toml:3:7: not valid TOML:");
  EXPECT_EQ(error_of("run.seed = 1\nrun.seed = 2").substr(0, 12), "test.toml:3:");
  EXPECT_EQ(error_of("run.device = '\xff'").substr(0, 12), "test.toml:2:");
}

// In toml++ 3.3 the first one aborts a debug build, and the others are undefined behaviour.
TEST(LoadError, NotTomlInWaysThatBreakTheParser) {
  EXPECT_EQ(error_of("[=]").substr(0, 30), "test.toml:2:2: not valid TOML:");
  EXPECT_EQ(error_of("\xc3\xbc = 1").substr(0, 30), "test.toml:2:1: not valid TOML:");
  EXPECT_EQ(error_of("run.seed = 1 \xc3\xbc").substr(0, 12), "test.toml:2:");
  const auto folded = loaded_from("data.valid = \"\"\"\\\n\xc3\xbc\"\"\"").recipe.data.valid;
  EXPECT_EQ(folded, std::vector<std::string>{"\xc3\xbc"});
}

TEST(LoadError, WrongTypeOrRangeSaysWhatIsAllowed) {
  EXPECT_EQ(error_of("model.width = '64'"),
            "test.toml:2: model.width is \"64\", allowed: a whole number from 1 to 65536");
  EXPECT_EQ(error_of("model.width = 0"),
            "test.toml:2: model.width is 0, allowed: a whole number from 1 to 65536");
  EXPECT_EQ(error_of("", {"optimizer.rate=fast"}),
            "--set optimizer.rate=fast: optimizer.rate is \"fast\", allowed: a number above 0, at "
            "most 100");
  EXPECT_EQ(error_of("model.architecture = 'lama'"),
            "test.toml:2: model.architecture is \"lama\", allowed: \"llama\" or \"gpt2\"; did you "
            "mean \"llama\"?");
  EXPECT_EQ(error_of("data.valid = [1]"),
            "test.toml:2: data.valid is [1.0], allowed: a string or a list of strings, none empty");
  EXPECT_EQ(error_of("sim.speeds = [1, 'a']"),
            "test.toml:2: sim.speeds is a list that is neither all strings nor all numbers, "
            "allowed: a list of numbers, each above 0, at most 1000000");
  EXPECT_EQ(error_of("run.seed = 99999999999999999999").substr(0, 30),
            "test.toml:2:32: not valid TOML");
}

TEST(LoadError, SetThatIsNotAnAssignment) {
  for (const std::string set : {"model.width", "=3", ""}) {
    EXPECT_EQ(
        error_of("", {set}),
        "--set " + set + ": write it as --set table.key=value, for example --set model.width=64");
  }
}

TEST(LoadError, SetWhoseQuotesTheShellRemoved) {
  const std::string message = error_of("", {"data.train=[a,b]"});
  EXPECT_EQ(message.substr(0, 44), "--set data.train=[a,b]: not a TOML value (Er");
  EXPECT_NE(message.find("single quotes around the argument: --set 'data.train=...'"),
            std::string::npos);
}

TEST(LoadError, SetThatIsNotUtf8) {
  EXPECT_EQ(error_of("", {"data.train=\xff"}), "--set data.train=?: the value is not valid UTF-8");
}

TEST(LoadError, LongValuesAreCut) {
  EXPECT_LT(error_of("run.device = '" + std::string(1 << 20, 'x') + "'").size(), 250u);
  EXPECT_LT(error_of("", {std::string(1 << 20, 'x') + "=1"}).size(), 250u);
}

TEST(LoadError, NothingToTrainOn) {
  const auto loaded = parse_recipe("data.train = []", "test.toml", {});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(loaded.error().message,
            "test.toml: data.train is missing: give a string or a list of strings, none empty, in "
            "the file or as --set data.train=NAME");
  EXPECT_FALSE(parse_recipe("", "test.toml", {}).ok());
  EXPECT_TRUE(parse_recipe("", "test.toml", {"data.train=a"}).ok());
}

TEST(LoadFile, ReadsAndNamesTheFile) {
  const Path path = Path(testing::TempDir()) / "leeway_load_test.toml";
  std::ofstream(path) << kSmallest << "run.seed = 9\n";
  const auto loaded = load_recipe(path, {});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->recipe.run.seed, 9);
  EXPECT_EQ(loaded->origin_of("run.seed").file, path.string());
  std::filesystem::remove(path);
}

TEST(LoadFile, MissingIsAUsageError) {
  const auto loaded = load_recipe("no/such/recipe.toml", {});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kUsage);
  EXPECT_NE(loaded.error().message.find("no/such/recipe.toml"), std::string::npos);
}

// Includes the changes that its readers are told to try.
TEST(LoadFile, TheQuickstartIsValid) {
  const auto loaded = load_recipe("recipes/quickstart.toml", {"run.updates=50"});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->recipe.run.updates, 50);
  EXPECT_EQ(loaded->recipe.averaging.method, AveragingMethod::kLowbit);
  for (const std::string set :
       {"mesh.replicas=1", "mesh.replicas=4", "mesh.stages=1", "averaging.method=none",
        "averaging.method=sparse", "averaging.method=diloco", "pipeline.schedule=1f1b"}) {
    const auto changed = load_recipe("recipes/quickstart.toml", {set});
    EXPECT_TRUE(changed.ok()) << set << ": " << changed.error().message;
  }
}

TEST(LoadFile, TheRecipeOfTheTableIsValidForItsRows) {
  for (const std::string set : {"run.seed=1", "pipeline.schedule=1f1b", "pipeline.lookahead=none",
                                "pipeline.lookahead=matched", "pipeline.update_every=1"}) {
    const auto loaded = load_recipe("recipes/pipeline8.toml", {set});
    EXPECT_TRUE(loaded.ok()) << set << ": " << loaded.error().message;
  }
  const std::vector<std::string> share = {"pipeline.schedule=1f1b", "optimizer.gradient_share=0.2"};
  EXPECT_TRUE(load_recipe("recipes/pipeline8.toml", share).ok());
}

}  // namespace
}  // namespace leeway
