// A tiny run made by the product, so that the seeds are what it really writes. In simulated time,
// so that they are the same bytes every time.
#include <regex>

#include "../support/small_text.h"
#include "config/print.h"
#include "run/device.h"
#include "run/drivers.h"
#include "run/local_crew.h"
#include "sample.h"
#include "target.h"

namespace leeway::fuzz {
namespace {

namespace fs = std::filesystem;

// Every kind of line is in its log: two stages, two replicas, rounds, evaluations, checkpoints.
constexpr std::string_view kRecipe = R"(
[run]
driver = "sim"
updates = 4
checkpoint_every = 2
evaluate_every = 2
evaluate_windows = 4
[model]
layers = 2
width = 8
heads = 1
context = 8
[data]
batch = 2
valid_share = 0.2
[mesh]
stages = 2
replicas = 2
[optimizer]
warmup = 1
)";

void write_corpus(const Path& folder) {
  fs::create_directories(folder);
  const std::vector<std::string> texts = small_texts();
  for (size_t i = 0; i < texts.size(); ++i) {
    must_write(folder / (std::to_string(i) + ".txt"), texts[i]);
  }
}

// What differs from one process to the next: folders and peak memory.
void forget_process(const Path& folder, const Path& file) {
  std::string text = must_read(folder / file);
  for (size_t at = 0; (at = text.find(folder.string() + "/", at)) != std::string::npos;) {
    text.erase(at, folder.string().size() + 1);
  }
  text = std::regex_replace(text, std::regex("(\"peak_rss_bytes\": )[0-9]+"), "$012345");
  must_write(folder / file, text);
}

}  // namespace

Result<LoadedRecipe> sample_recipe(const Path& sample, const Path& file) {
  return load_recipe(file, {"data.train=\"" + (sample / "corpus").string() + "\""});
}

Dataset sample_data(const Path& sample, const Recipe& recipe) {
  return must(open_dataset({.train = recipe.data.train,
                            .valid = recipe.data.valid,
                            .tokenizer = recipe.data.tokenizer,
                            .valid_share = recipe.data.valid_share},
                           sample / "data", [](uint64_t, uint64_t) { return true; }));
}

Result<TrainingSummary> train_sample(const Path& sample, const LoadedRecipe& loaded,
                                     const Path& run, bool resume) {
  set_up_compute(threads_per_worker(loaded.recipe), Repeatable::kPrefer);
  const Dataset data = sample_data(sample, loaded.recipe);
  LocalCrew crew(make_driver(loaded.recipe, data.vocabulary));
  const HeldFolder held = must(HeldFolder::hold(run));
  return train({.recipe = loaded.recipe,
                .recipe_text = print_recipe(loaded),
                .folder = held,
                .resume = resume},
               data, crew, {});
}

void make_sample(const Path& folder) {
  write_corpus(folder / "corpus");
  must_write(folder / "recipe.toml", kRecipe);
  fs::copy("recipes", folder / "recipes", fs::copy_options::recursive);

  const LoadedRecipe loaded = must(sample_recipe(folder, folder / "recipe.toml"));
  const auto summary = must(train_sample(folder, loaded, folder / "run", /*resume=*/false));
  LEEWAY_CHECK(summary.finished, "the sample is a finished run");
  for (const char* file : {"config.toml", "events.jsonl", "summary.json"}) {
    forget_process(folder, Path("run") / file);
  }
}

}  // namespace leeway::fuzz
