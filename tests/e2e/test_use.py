"""`leeway eval` and `leeway generate` on a freshly trained run."""

import array
import json
import math


def test_eval_gives_the_validation_loss_of_the_run(place):
    place.ok("data", "prepare", "corpus", "--tokenizer", "bytes", "--valid-share", "0.2",
             "--out", "data")  # fmt: skip
    summary = place.train("r", *place.sets(data__train="data", run__evaluate_windows=0))
    done = place.ok("eval", "r", "--data", "data", "--json")
    result = json.loads(done.stdout)
    assert math.isclose(result["loss"], summary["valid_loss"], rel_tol=1e-5)
    assert math.isclose(result["perplexity"], math.exp(result["loss"]))
    assert math.isclose(result["bits_per_byte"], summary["valid_bits_per_byte"], rel_tol=1e-5)
    people = place.ok("eval", "r", "--data", "data").stdout
    assert f"loss {result['loss']:.4f}, perplexity" in people
    some = json.loads(place.ok("eval", "r", "--data", "data", "--windows", 2, "--json").stdout)
    assert some["tokens"] == 2 * 32


def test_eval_takes_plain_text_and_one_checkpoint(place):
    place.train("r", "--stop-at", 4)
    place.train("r", "--resume")
    losses = [
        json.loads(place.ok("eval", run, "--data", "corpus", "--json").stdout)["loss"]
        for run in ("r/checkpoints/update-00000004", "r")
    ]
    assert losses[1] < losses[0]


def test_generate_repeats_with_a_seed_and_differs_without(place):
    place.train("r", *place.sets(run__updates=40))
    command = ("generate", "r", "--prompt", "word", "--tokens", 40)
    first = place.ok(*command, "--seed", 5, text=False).stdout
    assert first.startswith(b"word") and len(first) > 20
    assert first == place.ok(*command, "--seed", 5, text=False).stdout
    assert first != place.ok(*command, "--seed", 6, text=False).stdout
    greedy = place.ok(*command, "--temperature", 0, "--seed", 1, text=False).stdout
    assert greedy == place.ok(*command, "--top-k", 1, "--seed", 2, text=False).stdout


def test_a_checkpoint_is_found_however_it_is_named(place):
    place.train("r")
    words = ("--prompt", "word", "--tokens", 3)
    expected = place.ok("generate", "r", *words, text=False).stdout
    name = "r/checkpoints/update-00000012/"
    assert place.ok("generate", name, *words, text=False).stdout == expected


def test_a_foreign_token_file_with_a_tokenizer_of_the_recipe(place):
    ids = array.array("H", (b"words and more words " * 200))
    (place.folder / "foreign.bin").write_bytes(ids.tobytes())
    summary = place.train("r", *place.sets(data__train="foreign.bin", data__valid="foreign.bin"))
    assert summary["valid_bits_per_byte"] is None
    done = place.run("generate", "r", "--prompt", "word", "--tokens", 3)
    assert done.returncode == 2 and "without a tokenizer" in done.stderr
    ids[0] = ord("x")
    (place.folder / "foreign.bin").write_bytes(ids.tobytes())
    sets = place.sets(run__updates=20)
    sentence = place.refused(2, "train", "--resume", "--out", "r", *sets)
    assert "the training data is not what r was trained on" in sentence


def test_a_longer_run_says_that_its_schedule_changes(place):
    place.train("r")
    done = place.ok("train", "--resume", "--out", "r", *place.sets(run__updates=20))
    assert "run.updates was 12 and is now 20" in done.stderr
    assert json.loads((place.folder / "r/summary.json").read_text())["updates"] == 20


def test_generate_goes_past_the_context(place):
    place.train("r")
    text = place.ok("generate", "r", "--prompt", "w" * 100, "--tokens", 60, text=False).stdout
    assert text.startswith(b"w" * 100)
