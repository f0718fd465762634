// Values that do not fit together, and similar ones that do.
#include "config/checks.h"

#include <gtest/gtest.h>

#include "config_testing.h"

namespace leeway {
namespace {

struct Misfit {
  std::vector<std::string> sets;
  std::string message;
};

class Together : public testing::TestWithParam<Misfit> {};

TEST_P(Together, MismatchesAreNamed) {
  EXPECT_EQ(error_of("", GetParam().sets), GetParam().message);
}

const Misfit kModel[] = {
    {{"model.width=100", "model.heads=3"},
     "model.width = 100 (--set) is not a multiple of model.heads = 3 (--set): change one "
     "of them"},
    {{"model.kv_heads=3"},
     "model.heads = 4 (default) is not a multiple of model.kv_heads = 3 (--set): each "
     "key and value head must serve the same number of heads"},
    {{"model.architecture=gpt2", "model.kv_heads=2"},
     "model.kv_heads = 2 (--set) differs from model.heads = 4 (default), but "
     "model.architecture = \"gpt2\" (--set) has no grouped-query attention: leave model.kv_heads "
     "out"},
    {{"model.width=12"},
     "model.width = 12 (--set) over model.heads = 4 (default) gives a head size of 3, "
     "but llama's rotary positions need an even one: change one of them"},
    {{"model.activation=gelu"},
     "model.activation = \"gelu\" (--set) does not go with model.architecture = "
     "\"llama\" (default): choose \"swiglu\""},
    {{"model.activation=swiglu", "model.architecture=gpt2"},
     "model.activation = \"swiglu\" (--set) does not go with model.architecture = "
     "\"gpt2\" (--set): choose \"gelu\" or \"relu\""},
    {{"model.bias=true"},
     "model.bias = true (--set) does not go with model.architecture = \"llama\" "
     "(default), which has no biases: leave model.bias out"}};
INSTANTIATE_TEST_SUITE_P(Model, Together, testing::ValuesIn(kModel));

const Misfit kRest[] = {
    {{"run.updates=5", "run.tokens=6"},
     "run.updates = 5 (--set) and run.tokens = 6 (--set) both set the length of the run: "
     "keep one of them"},
    {{"run.precision=fp64", "run.device=cuda"},
     "run.precision = \"fp64\" (--set) does not go with run.device = \"cuda\" (--set): "
     "fp64 is for comparisons on the cpu"},
    {{"optimizer.warmup=2000"},
     "optimizer.warmup = 2000 (--set) is more than run.updates = 1000 (default): shorten "
     "the warm-up"},
    {{"optimizer.warmup=3", "run.tokens=4096"},
     "optimizer.warmup = 3 (--set) is more than the 2 updates of run.tokens = 4096 "
     "(--set): shorten the warm-up"},
    {{"optimizer.name=adamw", "optimizer.nesterov=true"},
     "optimizer.nesterov = true (--set) does not go with optimizer.name = \"adamw\" "
     "(--set): optimizer.name = \"nadamw\" is AdamW with it"},
    {{"optimizer.name=nadamw", "optimizer.nesterov=false"},
     "optimizer.nesterov = false (--set) does not go with optimizer.name = \"nadamw\" "
     "(--set): optimizer.name = \"adamw\" is the form without it"},
    {{"mesh.stages=5"},
     "model.layers = 4 (default) is less than mesh.stages = 5 (--set): every stage needs "
     "a layer"},
    {{"pipeline.update_every=3"},
     "data.batch = 16 (default) is not a multiple of pipeline.update_every = 3 (--set): "
     "set data.batch to 15 or 18, or change pipeline.update_every"},
    {{"mesh.stages=4", "pipeline.extra_per_hop=1"},
     "data.batch = 16 (default) is not a multiple of pipeline.update_every = 7 "
     "(automatic: (4 - 1)(1 + 1) + 1 for mesh.stages = 4 (--set) and "
     "pipeline.extra_per_hop = 1 (--set)): set data.batch to 14 or 21, or change "
     "pipeline.update_every"},
    {{"mesh.stages=4", "pipeline.extra_per_hop=6"},
     "data.batch = 16 (default) is not a multiple of pipeline.update_every = 22 "
     "(automatic: (4 - 1)(1 + 6) + 1 for mesh.stages = 4 (--set) and "
     "pipeline.extra_per_hop = 6 (--set)): set data.batch to 22, or change "
     "pipeline.update_every"}};
INSTANTIATE_TEST_SUITE_P(Rest, Together, testing::ValuesIn(kRest));

const Misfit kPipeline[] = {
    {{"optimizer.name=nadamw", "pipeline.lookahead=matched"},
     "pipeline.lookahead = \"matched\" (--set) does not go with optimizer.name = "
     "\"nadamw\" (--set): nadamw implies the look-ahead nesterov; choose optimizer.name = "
     "\"adamw\" for another one"},
    {{"optimizer.nesterov=false", "pipeline.lookahead=nesterov"},
     "pipeline.lookahead = \"nesterov\" (--set) does not go with optimizer.nesterov = "
     "false (--set): leave optimizer.nesterov out"},
    {{"optimizer.name=adamw", "optimizer.nesterov=false", "pipeline.lookahead=nesterov"},
     "pipeline.lookahead = \"nesterov\" (--set) does not go with optimizer.nesterov = "
     "false (--set): leave optimizer.nesterov out"},
    {{"pipeline.lookahead=none", "pipeline.horizon=0.5"},
     "pipeline.horizon = 0.5 (--set) does not go with pipeline.lookahead = \"none\" "
     "(--set), which predicts nothing: leave pipeline.horizon out, or choose "
     "\"predict\" or \"matched\""},
    {{"optimizer.name=nadamw", "pipeline.horizon=0"},
     "pipeline.horizon = 0.0 (--set) does not go with pipeline.lookahead = \"nesterov\" "
     "(default), which predicts nothing: leave pipeline.horizon out, or choose "
     "\"predict\" or \"matched\""},
    {{"mesh.stages=4", "pipeline.update_every=2", "pipeline.lookahead=tentative"},
     "pipeline.lookahead = \"tentative\" (--set) does not go with pipeline.update_every = "
     "2 (--set): with 4 microbatches in flight some late forwards start before any gradient "
     "of the update is known; choose \"matched\", or pipeline.update_every = 4 or more"},
    {{"pipeline.lookahead=none", "pipeline.refresh=3"},
     "pipeline.refresh = 3 (--set) does not go with pipeline.lookahead = \"none\" (--set): "
     "leave pipeline.refresh out, or choose \"tentative\""},
    {{"run.precision=fp64", "optimizer.moments=bf16"},
     "optimizer.moments = \"bf16\" (--set) does not go with run.precision = \"fp64\" (--set): "
     "weights in fp64 have moments in fp64"},
    {{"pipeline.lookahead=matched", "optimizer.gradient_share=0.1"},
     "optimizer.gradient_share = 0.1 (--set) does not go with pipeline.lookahead = "
     "\"matched\" (--set), which sets its own: leave optimizer.gradient_share out"},
    {{"optimizer.name=nadamw", "optimizer.gradient_share=0.1"},
     "optimizer.gradient_share = 0.1 (--set) does not go with pipeline.lookahead = "
     "\"nesterov\" (default), which sets its own: leave optimizer.gradient_share out"},
    {{"optimizer.name=sgd", "optimizer.second_moment=mean"},
     "optimizer.second_moment = \"mean\" (--set) does not go with optimizer.name = \"sgd\" "
     "(--set), which has no second moment: leave it out"},
    {{"mesh.replicas=2", "averaging.method=allreduce", "optimizer.second_moment=mean"},
     "optimizer.second_moment = \"mean\" (--set) does not go with averaging.method = "
     "\"allreduce\" (--set): every replica has the mean gradient itself; leave it out"},
    {{"pipeline.schedule=1f1b", "optimizer.clip_stages=whole"},
     "optimizer.clip_stages = \"whole\" (--set) does not go with pipeline.schedule = \"1f1b\" "
     "(--set), which clips by the norm of the whole model: leave it out"},
    {{"pipeline.stash=false"},
     "pipeline.stash = false (--set) does not go with pipeline.recompute = false "
     "(default): a backward needs the weights of its forward, or must repeat the forward; set "
     "pipeline.recompute = true"},
    {{"pipeline.recompute=true", "pipeline.stash=false", "pipeline.stash_on=host"},
     "pipeline.stash_on = \"host\" (--set) does not go with pipeline.stash = false (--set): "
     "nothing is stashed; leave pipeline.stash_on out, or set pipeline.stash = true"}};
INSTANTIATE_TEST_SUITE_P(Pipeline, Together, testing::ValuesIn(kPipeline));

const Misfit kFlushed[] = {
    {{"pipeline.schedule=1f1b", "pipeline.lookahead=matched"},
     "pipeline.lookahead = \"matched\" (--set) does not go with pipeline.schedule = \"1f1b\" "
     "(--set), where no gradient is late: leave pipeline.lookahead out, or choose \"async\""},
    {{"pipeline.schedule=gpipe", "pipeline.lookahead=tentative"},
     "pipeline.lookahead = \"tentative\" (--set) does not go with pipeline.schedule = "
     "\"gpipe\" (--set), where no gradient is late: leave pipeline.lookahead out, or choose "
     "\"async\""},
    {{"pipeline.schedule=gpipe", "pipeline.lookahead=predict", "pipeline.horizon=1"},
     "pipeline.lookahead = \"predict\" (--set) does not go with pipeline.schedule = "
     "\"gpipe\" (--set), where no gradient is late: leave pipeline.lookahead out, or choose "
     "\"async\""},
    {{"pipeline.schedule=1f1b", "pipeline.refresh=2"},
     "pipeline.refresh = 2 (--set) does not go with pipeline.schedule = \"1f1b\" (--set), "
     "where no gradient is late: leave pipeline.refresh out, or choose \"async\""},
    {{"pipeline.schedule=1f1b", "pipeline.horizon=0.5"},
     "pipeline.horizon = 0.5 (--set) does not go with pipeline.schedule = \"1f1b\" (--set), "
     "where no gradient is late: leave pipeline.horizon out, or choose \"async\""}};
INSTANTIATE_TEST_SUITE_P(Flushed, Together, testing::ValuesIn(kFlushed));

const Misfit kSim[] = {
    {{"run.driver=sim", "run.device=cuda"},
     "run.driver = \"sim\" (--set) does not go with run.device = \"cuda\" (--set): the "
     "simulator computes on the cpu"},
    {{"sim.speeds=[1, 2]"},
     "sim.speeds = [1.0, 2.0] (--set) has 2 numbers, but mesh.stages = 1 (default) needs "
     "one per stage: change one of them"},
    {{"sim.speeds=[0.5]", "mesh.stages=2"},
     "sim.speeds = [0.5] (--set) has 1 number, but mesh.stages = 2 (--set) needs one "
     "per stage: change one of them"},
    {{"sim.speeds=[1, 1, 0.5]", "mesh.stages=2", "mesh.replicas=2"},
     "sim.speeds = [1.0, 1.0, 0.5] (--set) has 3 numbers, but mesh.stages = 2 (--set) needs one "
     "per stage, or one per worker, 4 in all: change one of them"}};
INSTANTIATE_TEST_SUITE_P(Sim, Together, testing::ValuesIn(kSim));

const Misfit kProcesses[] = {
    {{"run.driver=zmq", "run.faults=replica 0 lost at 3"},
     "run.faults = [\"replica 0 lost at 3\"] (--set) does not go with run.driver = \"zmq\" "
     "(--set): "
     "planned faults are for threads and sim; leave run.faults out, and end a process to see what "
     "happens"},
    {{"run.driver=mpi", "run.faults=coordinator lost at 3"},
     "run.faults = [\"coordinator lost at 3\"] (--set) does not go with run.driver = \"mpi\" "
     "(--set): "
     "planned faults are for threads and sim; leave run.faults out, and end a process to see what "
     "happens"}};
INSTANTIATE_TEST_SUITE_P(Processes, Together, testing::ValuesIn(kProcesses));

TEST(Checks, NameTheLineOfTheFile) {
  EXPECT_EQ(error_of("[model]\nwidth = 100\nheads = 3"),
            "model.width = 100 (test.toml:3) is not a multiple of model.heads = 3 (test.toml:4): "
            "change one of them");
  EXPECT_EQ(error_of("run.updates = 5\nrun.tokens = 6"),
            "run.updates = 5 (test.toml:2) and run.tokens = 6 (test.toml:3) both set the length of "
            "the run: keep one of them");
}

// Values that look like the mismatches above but fit.
TEST(Checks, AcceptValuesThatFit) {
  loaded_from("", {"model.kv_heads=2"});
  loaded_from("", {"model.architecture=gpt2", "model.width=12"});
  loaded_from("", {"model.architecture=gpt2", "model.activation=relu", "model.bias=false"});
  loaded_from("", {"model.bias=false"});
  loaded_from("", {"run.precision=fp64"});
  loaded_from("", {"run.precision=bf16", "run.device=cuda:1"});
  loaded_from("", {"optimizer.warmup=1000"});
  loaded_from("", {"optimizer.name=sgd", "optimizer.nesterov=false"});
  loaded_from("", {"mesh.stages=4"});
  loaded_from("", {"optimizer.name=nadamw", "pipeline.lookahead=nesterov"});
  loaded_from("", {"optimizer.name=adamw", "pipeline.lookahead=nesterov"});
  loaded_from("", {"pipeline.lookahead=matched", "pipeline.horizon=0.5"});
  loaded_from("", {"pipeline.lookahead=tentative", "pipeline.refresh=3"});
  loaded_from("", {"pipeline.lookahead=none", "pipeline.refresh=auto"});
  loaded_from("", {"pipeline.lookahead=none", "optimizer.gradient_share=0.1"});
  loaded_from("", {"mesh.stages=4", "pipeline.update_every=2", "pipeline.schedule=1f1b"});
  loaded_from("", {"pipeline.lookahead=predict", "pipeline.horizon=0"});
  loaded_from("", {"pipeline.lookahead=none", "pipeline.horizon=auto"});
  loaded_from("", {"pipeline.recompute=true", "pipeline.stash=false"});
  loaded_from("", {"pipeline.schedule=gpipe", "pipeline.lookahead=none"});
  loaded_from("", {"pipeline.schedule=1f1b", "optimizer.gradient_share=0.2"});
  loaded_from("", {"pipeline.schedule=1f1b", "optimizer.name=nadamw"});
  loaded_from("", {"pipeline.schedule=1f1b", "pipeline.lookahead=nesterov"});
  loaded_from("pipeline.lookahead = 'matched'",
              {"pipeline.schedule=1f1b", "pipeline.lookahead=auto"});
  loaded_from("", {"run.driver=threads", "sim.latency_ms=5"});
  loaded_from("", {"mesh.stages=2", "sim.speeds=[1, 0.5]"});
  loaded_from("", {"run.driver=zmq", "run.device=cuda", "network.emulate.latency_ms=5"});
  loaded_from("", {"run.driver=threads", "network.emulate.latency_ms=5"});
  loaded_from("", {"run.driver=threads", "run.faults=replica 0 lost at 3"});
}

}  // namespace
}  // namespace leeway
