"""`leeway config`: what is printed, where, and with which exit status."""

import subprocess

import pytest
from places import LEEWAY, REPOSITORY

QUICKSTART = "recipes/quickstart.toml"


def run(*arguments):
    return subprocess.run([LEEWAY, *arguments], cwd=REPOSITORY, capture_output=True, text=True)


def leeway(*arguments):
    return run("config", *arguments)


def test_check_says_ok_and_sums_up():
    done = leeway("check", QUICKSTART, "--set", "run.updates=50")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{QUICKSTART}: ok"
    assert any("50 updates" in line for line in lines[1:])


def table(text, first):
    """The rows of the table whose heading starts with `first`, as lists of words."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.split()[:1] == [first])
    rows = []
    for line in lines[begin + 1:]:
        if not line:
            break
        rows.append(line.split())
    return rows


def test_check_shows_the_cut_its_delays_and_the_memory():
    done = leeway("check", QUICKSTART, "--set", "mesh.stages=4")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  size   359,280 parameters, a vocabulary of 257 tokens" in done.stdout
    stages = table(done.stdout, "stage")
    assert [row[:3] for row in stages] == [
        ["0", "0.75", "1"], ["1", "0.50", "1"], ["2", "0.25", "1"], ["3", "0.00", "0"]]
    counts = [int(row[-1].replace(",", "")) for row in stages]
    assert sum(counts) == 359280
    memory = table(done.stdout, "memory")
    assert [row[0] for row in memory] == ["0", "1", "2", "3", "all"]
    assert "warning" not in done.stdout


def test_check_with_update_every_one_shows_the_papers_delays():
    done = leeway("check", QUICKSTART, "--set", "mesh.stages=4", "--set", "pipeline.update_every=1")
    assert [row[2] for row in table(done.stdout, "stage")] == ["3", "2", "1", "0"]


def everything_in(folder):
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))


@pytest.mark.parametrize("status, key, sentence", [
    (1, "data.train=no/such.txt", "cannot read no/such.txt: No such file"),
    (1, "data.train=no/*.txt", "no file matches no/*.txt"),
    (1, "data.train=secret.txt", "cannot read secret.txt"),
    (1, "data.train=broken.gz", "broken.gz"),
    (1, "data.valid=no/such.txt", "cannot read no/such.txt: No such file"),
    (1, "data.tokenizer=hf:no/such.json", "cannot read no/such.json: No such file"),
    (1, "model.context=100000", "tokens, fewer than the 100001 of one window"),
    (1, "data.train=damaged", "damaged"),
    (2, "run.device=cuda", "cuda was requested, but "),
    (2, "run.threads_per_worker=4096", "is more than this machine can use"),
    (2, "data.batch=1000000", "of it for activations, but this machine has"),
])
def test_check_finds_what_train_would_and_writes_nothing(place, status, key, sentence):
    (place.folder / "secret.txt").mkdir()  # a folder without files: the tests may run as root
    (place.folder / "broken.gz").write_bytes(b"\x1f\x8b\x08 not gzip")
    if "damaged" in key:
        place.ok("data", "prepare", "corpus", "--out", "damaged")
        tokens = place.folder / "damaged/train.tokens"
        tokens.write_bytes(tokens.read_bytes()[:-100])
    if "secret" in key:
        sentence = "no files to read in the folder secret.txt"
    before = everything_in(place.folder)
    said = place.refused(status, "config", "check", "tiny.toml", "--set", key)
    assert sentence in said
    assert everything_in(place.folder) == before
    trained = place.refused(status, "train", "tiny.toml", "--set", key)
    if "run." in key:  # it may be for another machine
        assert said.startswith("leeway: training on this machine would fail: ")
    assert sentence in trained


def test_check_of_a_good_recipe_writes_nothing(place):
    place.ok("data", "prepare", "corpus", "--out", "prepared")
    before = everything_in(place.folder)
    for data in ("corpus", "prepared", "prepared/train.tokens"):
        done = place.ok("config", "check", "tiny.toml", "--set", f"data.train={data}")
        assert done.stdout.startswith("tiny.toml: ok\n") and "note" not in done.stdout
    assert everything_in(place.folder) == before


def test_check_of_large_data_says_that_it_was_not_read(place):
    (place.folder / "large.txt").write_text("some words\n" * 500_000)
    done = place.ok("config", "check", "tiny.toml", "--set", "data.train=large.txt")
    assert "were not read through" in done.stdout.splitlines()[-1]
    (place.folder / "large.bin.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(5_000_000))
    sets = ["--set", "data.train=large.bin.txt"]
    assert "PNG" in place.refused(1, "config", "check", "tiny.toml", *sets)


def test_check_of_thousands_of_stages_takes_seconds():
    sets = ["mesh.stages=4096", "model.layers=4096", "mesh.replicas=1", "model.width=2",
            "model.heads=1", "model.context=1"]
    for more in (["data.batch=4096"], ["data.batch=1", "pipeline.update_every=1"]):
        arguments = [word for key in sets + more for word in ("--set", key)]
        done = subprocess.run([LEEWAY, "config", "check", QUICKSTART, *arguments],
                              cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


def test_what_another_method_has_no_use_for_is_left_out_with_a_note(place):
    recipe = place.folder / "tiny.toml"
    recipe.write_text(recipe.read_text() + """
[mesh]
replicas = 2
[averaging]
merge = "fixed_lag"
lag = 3
""")
    done = place.ok("train", "tiny.toml", "--out", "run", "--set", "averaging.method=allreduce",
                    "--set", "run.updates=2")
    assert ('note: averaging.lag = 3.0 (tiny.toml:24) is left out: it does not go with '
            'averaging.method = "allreduce" (--set)') in done.stderr
    again = place.ok("config", "check", "run/config.toml")
    assert again.stderr == ""
    both = ["--set", "averaging.method=allreduce", "--set", "averaging.lag=3"]
    assert "does not go with" in place.refused(2, "train", "tiny.toml", *both)


def test_a_key_of_thousands_of_parts_is_refused(tmp_path):
    recipe = tmp_path / "deep.toml"
    recipe.write_text("a." * 8000 + "a = 1\n")
    done = leeway("check", str(recipe))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{recipe}:1:32: nested more than 16 deep" in done.stderr


def test_version_as_a_flag_and_as_a_command():
    flag, command = run("--version"), run("version")
    assert (flag.returncode, flag.stderr) == (0, "")
    assert flag.stdout == command.stdout and flag.stdout.startswith("leeway ")
    assert "--version" in run("--help").stdout


SIMULATED = ["--set", "mesh.stages=4", "--set", "run.driver=sim", "--set", "sim.latency_ms=20"]


def test_check_warns_of_too_little_depth_and_its_advice_helps():
    done = leeway("check", QUICKSTART, *SIMULATED, "--set", "sim.flops=2e10")
    assert (done.returncode, done.stderr) == (0, "")
    warning = done.stdout.splitlines()[-1]
    words = warning.replace(",", "").split()
    assert warning.startswith("warning: pipeline.extra_per_hop = 0 is too low")
    extra = words[len(words) - words[::-1].index("pipeline.extra_per_hop") + 1]
    batch = words[words.index("data.batch") + 2]
    deeper = ["--set", f"pipeline.extra_per_hop={extra}", "--set", f"data.batch={batch}"]
    done = leeway("check", QUICKSTART, *SIMULATED, "--set", "sim.flops=2e10", *deeper)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stdout and "busy for 100 %" in done.stdout


def test_check_says_when_no_depth_helps():
    done = leeway("check", QUICKSTART, *SIMULATED, "--set", "sim.bandwidth_mbit=1")
    assert done.returncode == 0
    assert "more depth does not help: raise sim.bandwidth_mbit (1)" in done.stdout.splitlines()[-1]


def test_more_simulated_time_than_the_clock_counts_is_shown_as_its_end():
    done = leeway("check", QUICKSTART, *SIMULATED, "--set", "sim.flops=1e-5")
    assert done.returncode == 0 and "stage takes 9.223e+09 s per microbatch" in done.stdout


def test_a_run_that_does_not_fit_is_refused_with_what_to_change():
    deep = ["mesh.stages=4", "pipeline.extra_per_hop=1000", "pipeline.update_every=1",
            "data.batch=1000"]
    done = leeway("check", QUICKSTART, *(word for key in deep for word in ("--set", key)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("leeway: this run needs about ")
    assert "of it for activations, but this machine has" in done.stderr
    assert "lower pipeline.extra_per_hop (1000), set pipeline.recompute = true" in done.stderr


def test_unknown_key_is_a_usage_error_with_the_nearest_key():
    done = leeway("check", QUICKSTART, "--set", "model.widht=64")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--set model.widht=64: unknown key, did you mean width?" in done.stderr


def test_unknown_key_in_a_file_names_the_line(tmp_path):
    recipe = tmp_path / "wrong.toml"
    recipe.write_text("[model]\n\nwidht = 64\n")
    done = leeway("check", str(recipe))
    assert done.returncode == 2
    assert f"{recipe}:3: unknown key model.widht, did you mean model.width?" in done.stderr


def test_set_takes_one_value_so_that_the_recipe_may_follow():
    done = leeway("print", "--set", "run.seed=7", "--set", "model.heads=2", QUICKSTART)
    assert done.returncode == 0, done.stderr
    origins = {line.split(" = ")[0]: line.split("# ")[-1] for line in done.stdout.splitlines()}
    assert origins["seed"] == "--set"
    assert origins["heads"] == "--set"
    assert origins["keep"] == "default"
    assert origins["layers"].startswith(QUICKSTART + ":")


def test_list_after_set_reaches_the_recipe_whole():
    done = leeway("print", QUICKSTART, "--set", 'data.train=["a b.txt", "c.txt"]')
    assert done.returncode == 0, done.stderr
    assert 'train = ["a b.txt", "c.txt"]' in done.stdout


def test_what_is_printed_is_a_recipe_with_the_same_values(tmp_path):
    first = leeway("print", QUICKSTART, "--set", "run.tokens=100000")
    printed = tmp_path / "printed.toml"
    printed.write_text(first.stdout)
    again = leeway("print", str(printed))
    assert again.returncode == 0, again.stderr
    values = [[line.rsplit(" # ", 1)[0].rstrip() for line in done.stdout.splitlines()]
              for done in (first, again)]
    assert values[0] == values[1]


def test_keys_is_the_committed_page():
    done = leeway("keys")
    committed = (REPOSITORY / "docs/configuration.md").read_text()
    assert done.stdout == committed, "run: build/leeway config keys > docs/configuration.md"


def test_missing_recipe_is_a_usage_error():
    done = leeway("check", "no/such.toml")
    assert done.returncode == 2
    assert "no/such.toml" in done.stderr


def test_recipe_is_required_here_and_not_where_a_run_has_one():
    for command in ("check", "print"):
        assert "RECIPE is required" in leeway(command).stderr
        assert "RECIPE (required)" in leeway(command, "--help").stdout
    assert "(required)" not in run("train", "--help").stdout


@pytest.mark.parametrize("words, sentence", [
    (["trian"], "there is no `leeway trian` (did you mean train?); see `leeway --help`"),
    (["frobnicate", "x"], "there is no `leeway frobnicate`; see `leeway --help`"),
    (["config", "chekc"],
     "there is no `leeway config chekc` (did you mean check?); see `leeway config --help`"),
])
def test_unknown_command_is_named_with_the_nearest(words, sentence):
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"leeway: {sentence}\n"


@pytest.mark.parametrize("option, value, least", [
    ("--tokens", "0", 1), ("--tokens", "x", 1), ("--temperature", "-0.5", 0),
    ("--temperature", "nan", 0), ("--top-k", "-1", 0),
])
def test_number_out_of_range_is_answered_with_the_range(option, value, least):
    done = run("generate", "no-run", f"{option}={value}")
    assert done.returncode == 2
    assert f"{option}: got {value}; give {least} or more" in done.stderr


def test_every_command_has_an_example():
    for command in ([], ["check"], ["print"], ["keys"]):
        done = leeway(*command, "--help")
        assert done.returncode == 0
        assert "Example:\n  leeway config " in done.stdout, command
