// What an unknown name is answered with.
#include "config/advice.h"

#include <gtest/gtest.h>

#include "config/other_names.h"
#include "config_testing.h"

namespace leeway {
namespace {

TEST(OtherNames, AreAnsweredWithOurKeyInAnyTable) {
  const std::pair<std::string, std::string> names[] = {
      {"lr", "optimizer.rate"},
      {"learning_rate", "optimizer.rate"},
      {"weight_decay", "optimizer.decay"},
      {"grad_clip", "optimizer.clip"},
      {"steps", "run.updates"},
      {"max_steps", "run.updates"},
      {"max_iters", "run.updates"},
      {"epochs", "run.updates or run.tokens"},
      {"dim", "model.width"},
      {"n_embd", "model.width"},
      {"hidden_size", "model.width"},
      {"n_layer", "model.layers"},
      {"num_layers", "model.layers"},
      {"n_head", "model.heads"},
      {"num_heads", "model.heads"},
      {"batch_size", "data.batch"},
      {"micro_batch_size", "data.batch or pipeline.update_every"},
      {"gradient_accumulation_steps", "pipeline.update_every"},
      {"seq_len", "model.context"},
      {"block_size", "model.context"},
      {"context_length", "model.context"},
      {"warmup_steps", "optimizer.warmup"},
      {"betas", "optimizer.beta1 and optimizer.beta2"},
      {"maxSteps", "run.updates"},
      {"batch-size", "data.batch"}};
  for (const auto& [name, key] : names) {
    const std::string wanted = ", did you mean " + key + "?";
    for (const std::string table : {"", "run.", "model.", "optimizer.", "training."}) {
      for (const Spelling spelling : {Spelling::kPath, Spelling::kName})
        EXPECT_EQ(key_advice(table + name, spelling).substr(0, wanted.size()), wanted) << table;
    }
  }
  EXPECT_EQ(key_advice("model.dropout", Spelling::kName), "; there is no dropout: leave it out");
}

TEST(OtherNames, NameOnlyKeysThatExist) {
  for (const std::string_view name : {"lr", "steps", "dim", "betas", "epochs", "microbatch",
                                      "grad_accum", "outer_lr", "dp", "pp", "save_steps"}) {
    const std::string advice = other_name_advice(name).value_or("");
    for (size_t at = advice.find('.'); at != advice.npos; at = advice.find('.', at + 1)) {
      const size_t begin = advice.find_last_of(" (", at) + 1;
      const size_t end = advice.find_first_of(" ?),", at);
      EXPECT_NE(find_key(advice.substr(begin, end - begin)), nullptr) << advice;
    }
  }
}

TEST(OtherNames, SayMoreThanTheirTable) {
  EXPECT_EQ(error_of("[training]\nlr = 3").substr(0, 60),
            "test.toml:3: unknown key training.lr, did you mean optimizer");
  EXPECT_EQ(error_of("lr = 3").substr(0, 51),
            "test.toml:2: unknown key lr, did you mean optimizer");
}

TEST(KeyAdvice, NamesNothingThatIsFarOff) {
  for (const std::string path : {"optimizer.xr", "run.stars", "model.abc",
                                 "optimizer.gradient_norm", "data.colour", "mesh.x", "x.y", "q"}) {
    EXPECT_EQ(key_advice(path, Spelling::kPath).find("did you mean"), std::string::npos) << path;
  }
  EXPECT_EQ(key_advice("schedule", Spelling::kPath),
            ", did you mean optimizer.schedule or pipeline.schedule?");
  EXPECT_EQ(key_advice("run.evalute_evry", Spelling::kPath), ", did you mean run.evaluate_every?");
}

}  // namespace
}  // namespace leeway
