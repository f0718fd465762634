"""Every mistake gets one clear sentence, the right exit status, and loses nothing."""

import array
import json
import re
import resource

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers


def test_missing_recipe_and_missing_text(place):
    assert "nowhere.toml" in place.refused(2, "train", "nowhere.toml")
    sentence = place.refused(1, "train", "tiny.toml", *place.sets(data__train="nowhere"))
    assert "cannot read nowhere" in sentence and "check the path" in sentence


def test_empty_corpus(place):
    (place.folder / "empty").mkdir()
    done = place.run("train", "tiny.toml", *place.sets(data__train="empty"))
    assert done.returncode != 0 and "empty" in done.stderr
    (place.folder / "empty/a.txt").write_text("")
    done = place.run("train", "tiny.toml", *place.sets(data__train="empty"))
    assert done.returncode != 0 and done.stderr.count("leeway: ") == 1


def test_corpus_shorter_than_one_window(place):
    (place.folder / "short.txt").write_text("too short")
    sentence = place.refused(1, "train", "tiny.toml", *place.sets(data__train="short.txt"))
    assert "fewer than the 33 of one window" in sentence and "set model.context to" in sentence


def test_truncated_and_foreign_token_files(place):
    place.ok("data", "prepare", "corpus", "--tokenizer", "bytes", "--out", "data")
    tokens = place.folder / "data/train.tokens"
    whole = tokens.read_bytes()
    tokens.write_bytes(whole[: len(whole) // 2])
    sentence = place.refused(1, "train", "tiny.toml", *place.sets(data__train="data"))
    assert "train.tokens" in sentence and "prepare it again" in sentence
    tokens.write_bytes(b"not ours at all" * 100)
    sentence = place.refused(1, "train", "tiny.toml", *place.sets(data__train="data"))
    assert "train.tokens" in sentence


def save_small_tokenizer(path):
    """A byte-level BPE of 300 tokens, made by the `tokenizers` package."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["word word words"], trainer)
    tokenizer.save(str(path))


def test_token_id_outside_the_vocabulary(place):
    save_small_tokenizer(place.folder / "small.json")
    ids = array.array("H", [5] * 1000 + [65535])
    (place.folder / "foreign.bin").write_bytes(ids.tobytes())
    sets = place.sets(data__train="foreign.bin", data__tokenizer="hf:small.json")
    sentence = place.refused(1, "train", "tiny.toml", *sets)
    assert "65535" in sentence and "position 1000" in sentence.replace(",", "")


def test_ids_that_changed_after_they_were_written(place):
    place.ok("data", "prepare", "corpus", "--tokenizer", "bytes", "--out", "data")
    tokens = place.folder / "data/train.tokens"
    content = bytearray(tokens.read_bytes())
    content[-2] ^= 1
    tokens.write_bytes(content)
    sentence = place.refused(1, "train", "tiny.toml", *place.sets(data__train="data"))
    assert "was changed after it was written" in sentence and "prepare it again" in sentence


def test_broken_utf8_is_kept_byte_exact(place):
    broken = b"words and " * 100 + bytes(range(1, 128)) + b"\xc3\x28 \xff \xf0\x9f"
    (place.folder / "broken.bin.txt").write_bytes(broken)
    place.ok("data", "prepare", "broken.bin.txt", "--tokenizer", "bytes", "--out", "data")
    tokens = (place.folder / "data/train.tokens").read_bytes()
    assert broken in tokens[::2] or broken in tokens[1::2]


def test_wrong_values_name_what_is_allowed(place):
    sentence = place.refused(2, "train", "tiny.toml", "--set", "model.widht=64")
    assert "unknown key, did you mean width?" in sentence
    assert "model.layers" in place.refused(2, "train", "tiny.toml", "--set", "model.layers=many")
    assert "model.layers" in place.refused(2, "train", "tiny.toml", "--set", "model.layers=0")
    sentence = place.refused(2, "train", "tiny.toml", "--set", "mesh.stages=3")
    assert "mesh.stages" in sentence and "model.layers" in sentence
    assert "--frobnicate" in place.refused(2, "train", "tiny.toml", "--frobnicate")


@pytest.mark.parametrize("sets, words", [
    (dict(mesh__stages=3), ["model.layers = 2", "mesh.stages = 3", "every stage needs a layer"]),
    (dict(mesh__stages=2, pipeline__extra_per_hop=1),
     ["data.batch = 4", "(automatic: (2 - 1)(1 + 1) + 1", "set data.batch to 3 or 6"]),
    (dict(optimizer__name="nadamw", pipeline__lookahead="predict"),
     ["pipeline.lookahead", "optimizer.name", "nadamw implies the look-ahead nesterov"]),
    (dict(optimizer__nesterov="false", pipeline__lookahead="nesterov"),
     ["optimizer.nesterov = false", "leave optimizer.nesterov out"]),
    (dict(pipeline__lookahead="none", pipeline__horizon=0.5),
     ["pipeline.horizon = 0.5", "which predicts nothing"]),
    (dict(mesh__stages=2, pipeline__update_every=1, pipeline__lookahead="tentative"),
     ["pipeline.update_every = 1", 'choose "matched"']),
    (dict(pipeline__lookahead="none", pipeline__refresh=3), ["pipeline.refresh = 3"]),
    (dict(pipeline__lookahead="matched", optimizer__gradient_share=0.1),
     ["optimizer.gradient_share = 0.1", "which sets its own"]),
    (dict(pipeline__stash="false"), ["pipeline.recompute = false", "must repeat the forward"]),
    (dict(run__driver="sim", run__device="cuda"), ["run.driver", "run.device", "on the cpu"]),
    (dict(sim__speeds="[1, 2]"), ["sim.speeds = [1.0, 2.0]", "mesh.stages = 1"]),
    (dict(sim__speeds="[1, 0]"), ["allowed: a list of numbers, each above 0"]),
    (dict(pipeline__schedule="1f1"), ['did you mean "1f1b"?']),
    (dict(pipeline__horizon=-1), ["pipeline.horizon is -1", "a number from 0, at most 10"]),
    (dict(pipeline__extra_per_hop=1001), ["a whole number from 0 to 1000"]),
])  # fmt: skip
def test_invalid_pipelines_are_refused_in_one_sentence(place, sets, words):
    for command in (["config", "check"], ["train"]):
        sentence = place.refused(2, *command, "tiny.toml", *place.sets(**sets))
        assert all(word in sentence for word in words), sentence
    assert not (place.folder / "out").exists()


def limit_memory():
    """If a check fails to refuse, only the child process runs out of memory."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


@pytest.mark.parametrize("option", [["--driver", "zmq"], ["--set", "run.driver=zmq"]])
def test_a_driver_of_many_processes_is_not_for_one(place, option):
    said = place.refused(2, "train", "tiny.toml", "--out", "run", *option)
    assert 'run.driver = "zmq" (--set) is for many processes' in said
    assert "`leeway launch`" in said and "`leeway coordinate`" in said
    assert not (place.folder / "run").exists()
    said = place.refused(2, "train", "tiny.toml", "--driver", "zqm")
    assert 'did you mean "zmq"?' in said


def test_depth_whose_stash_does_not_fit_in_memory(place):
    values = place.sets(
        mesh__stages=2, pipeline__extra_per_hop=1000, pipeline__update_every=1, data__batch=200_000,
        run__updates=5000,
    )  # fmt: skip
    for command in (["config", "check"], ["train"]):
        sentence = place.refused(2, *command, "tiny.toml", *values, preexec_fn=limit_memory)
        assert "this run needs about" in sentence and "but this machine has" in sentence
        assert "lower pipeline.extra_per_hop (1000)" in sentence


def test_no_gpu(place):
    assert "cuda" in place.refused(2, "train", "tiny.toml", "--set", "run.device=cuda:7")


def test_unwritable_folder(place):
    (place.folder / "file").write_text("in the way")
    sentence = place.refused(1, "train", "tiny.toml", "--out", "file/run")
    assert "file" in sentence and "there is a file where a folder is needed" in sentence
    assert (place.folder / "file").read_text() == "in the way"
    sentence = place.refused(1, "train", "tiny.toml", "--out", "x" * 300)
    assert "File name too long" in sentence and "filesystem error" not in sentence


def test_other_files_are_not_written_over(place):
    (place.folder / "mine").mkdir()
    (place.folder / "mine/notes.txt").write_text("keep")
    sentence = place.refused(2, "train", "tiny.toml", "--out", "mine")
    assert "contains other files; choose another --out" in sentence
    assert [path.name for path in (place.folder / "mine").iterdir()] == ["notes.txt"]


def test_loss_that_is_not_a_number_stops_with_the_last_good_checkpoint(place):
    values = place.sets(
        optimizer__name="sgd", optimizer__rate=1e-3, optimizer__clip=0, optimizer__warmup=0,
        run__checkpoint_every=1, run__updates=200, optimizer__schedule="constant",
    )  # fmt: skip
    # One is on disk for certain: a busy disk may save few of the updates until it diverges.
    place.train("r", *values, "--stop-at", 2)
    sentence = place.refused(1, "train", "--resume", "--out", "r", *place.sets(optimizer__rate=100))
    assert "training diverged at update " in sentence and ": the loss is" in sentence
    assert "use --resume with a lower optimizer.rate" in sentence
    good = sentence.split("the last good checkpoint is ")[1].split(":")[0]
    loss = json.loads(place.ok("eval", good, "--data", "corpus", "--json").stdout)["loss"]
    assert loss == loss and loss < 1e30  # a number
    # The advice in the sentence works.
    more = ("--stop-at", int(good.split("-")[1]) + 1)
    done = place.ok("train", "--resume", "--out", "r", *place.sets(optimizer__rate=1e-9), *more)
    assert "optimizer.rate was 100.0 and is now 1e-09" in done.stderr
    kinds = [json.loads(line)["event"] for line in (place.folder / "r/events.jsonl").open()]
    assert "diverged" in kinds and "changed" in kinds


def cut_in_half(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("file", ["model.safetensors", "replica-0.stage-0.safetensors"])
def test_checkpoint_cut_in_half_falls_back_to_the_one_before(place, file):
    whole = place.train("whole")
    # Two sessions: a busy disk may skip any checkpoint but the last of each.
    place.train("r", "--stop-at", 3)
    place.train("r", "--resume", "--stop-at", 6)
    cut_in_half(place.folder / "r/checkpoints/update-00000006" / file)
    done = place.run("train", "--resume", "--out", "r", "--json")
    assert done.returncode == 0, done.stderr
    assert f"update-00000006/{file} is damaged" in done.stderr
    assert json.loads(done.stdout)["weights_hash"] == whole["weights_hash"]


def test_only_checkpoint_cut_in_half(place):
    place.train("r", "--stop-at", 6)
    cut_in_half(place.folder / "r/checkpoints/update-00000006/replica-0.stage-0.safetensors")
    sentence = place.refused(1, "train", "--resume", "--out", "r")
    assert "checkpoint" in sentence


def test_one_flipped_bit_is_noticed(place):
    place.train("r", "--stop-at", 6)
    model = place.folder / "r/checkpoints/update-00000006/model.safetensors"
    content = bytearray(model.read_bytes())
    content[-100] ^= 1
    model.write_bytes(content)
    assert "model.safetensors" in place.refused(1, "eval", "r", "--data", "corpus")


def test_resume_of_nothing_and_of_another_run(place):
    assert "no run to resume" in place.refused(2, "train", "tiny.toml", "--out", "r", "--resume")
    place.train("r", "--stop-at", 4)
    sentence = place.refused(
        2, "train", "tiny.toml", "--out", "r", "--resume", "--set", "model.width=64"
    )
    assert "model.width was 32 when r began and is 64 now" in sentence
    before = (place.folder / "r/config.toml").read_text()
    (place.folder / "corpus/text00.txt").write_text("other words " * 100)
    sentence = place.refused(2, "train", "tiny.toml", "--out", "r", "--resume")
    assert "the training data is not what r was trained on" in sentence
    assert (place.folder / "r/config.toml").read_text() == before
    place.ok("generate", "r", "--prompt", "word", "--tokens", 3, text=False)


def test_a_run_that_cannot_begin_leaves_the_earlier_one_in_place(place):
    place.train("r")
    place.refused(1, "train", "tiny.toml", "--out", "r", *place.sets(data__train="nowhere"))
    assert sorted(path.name for path in place.folder.glob("r*")) == ["r"]


@pytest.mark.parametrize("schedule", ["async", "1f1b"])
@pytest.mark.parametrize("driver", ["threads", "sim"])
def test_a_pipeline_that_diverges_ends_and_says_why(place, schedule, driver):
    sets = place.sets(
        optimizer__rate=100, optimizer__name="sgd", optimizer__clip=0, optimizer__warmup=0,
        pipeline__schedule=schedule, mesh__stages=2, run__driver=driver, run__updates=200,
    )  # fmt: skip
    sentence = place.refused(1, "train", "tiny.toml", "--out", "r", *sets)
    assert re.search(r"training diverged at update \d+: the .*(nan|inf)", sentence)
    assert "start again with --fresh and a lower optimizer.rate" in sentence


def test_divergence_never_takes_the_only_checkpoint(place):
    values = place.sets(
        optimizer__name="sgd", optimizer__rate=1e-3, optimizer__clip=0, optimizer__warmup=0,
        run__checkpoint_every=1, run__keep=1, run__updates=200, optimizer__schedule="constant",
    )  # fmt: skip
    place.train("r", *values, "--stop-at", 2)
    place.refused(1, "train", "--resume", "--out", "r", *place.sets(optimizer__rate=100))
    assert len(list((place.folder / "r/checkpoints").glob("update-*"))) == 1


def test_tokenizer_mismatch_between_data_and_run(place):
    save_small_tokenizer(place.folder / "other.json")
    place.ok("data", "prepare", "corpus", "--tokenizer", "hf:other.json", "--out", "data")
    place.train("r", "--stop-at", 2)
    assert "was not made with the tokenizer" in place.refused(2, "eval", "r", "--data", "data")
    sentence = place.refused(2, "train", "--resume", "--out", "r", "--set", "data.train=data")
    assert "data.train was" in sentence


@pytest.mark.parametrize("command", ["eval", "generate"])
def test_no_such_run(place, command):
    more = ["--data", "corpus"] if command == "eval" else []
    assert "is not a run folder" in place.refused(2, command, "nothing", *more)
    (place.folder / "hollow").mkdir()
    assert "hollow" in place.refused(1, command, "hollow", *more)


def test_json_of_the_wrong_kind_is_told_in_our_words(place):
    run = place.folder / "run"
    run.mkdir()
    (run / "config.toml").write_text("")
    (run / "summary.json").write_text('{"finished": "yes"}')
    assert "unfinished run" in place.refused(2, "train", "tiny.toml", "--out", "run")
    place.ok("data", "prepare", "corpus", "--out", "data")
    described = json.loads((place.folder / "data/data.json").read_text())
    described["train"] = "yes"
    (place.folder / "data/data.json").write_text(json.dumps(described))
    sentence = place.refused(1, "data", "info", "data")
    assert "prepare it again" in sentence and "exception" not in sentence
