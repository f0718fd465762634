"""`make bench`: every speed that the project claims, beside its reference, in one table.

Ratios are taken within one run, the two sides by turns, because machines are noisy. The reference
is the strongest that we know: PyTorch eager written for speed, the `tokenizers` package, memcpy.

    bench/run.py BUILD [--rounds 3]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared" / "data"
THREADS = len(os.sched_getaffinity(0))
TOKEN_FILE_PAYLOAD = 64  # bytes before the first id

MODELS = {  # name: layers, width, heads, hidden, context, batch, updates
    "0.4M, context 128": (4, 80, 4, 224, 128, 16, 60),
    "1.6M, context 128": (6, 144, 4, 384, 128, 16, 25),
    "10M, context 256": (8, 320, 5, 864, 256, 8, 6),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def output_of(command, **environment):
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
    )
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr}")
    return done.stdout


def megabytes(count):
    return f"{count / 1e6:.0f}"


def training_rows(build, data, folder, rounds):
    tokens = data / "train.tokens"
    for name, (layers, width, heads, hidden, context, batch, updates) in MODELS.items():
        say(f"training {name}")
        sets = {
            "data.train": data, "run.updates": updates, "run.evaluate_every": 0,
            "run.evaluate_windows": 1, "run.threads_per_worker": THREADS, "model.layers": layers,
            "model.width": width, "model.heads": heads, "model.hidden": hidden,
            "model.context": context, "data.batch": batch, "optimizer.name": "adamw",
            "optimizer.rate": 1e-3, "optimizer.warmup": 0, "run.checkpoint_every": 0,
        }  # fmt: skip
        ours_command = [build / "leeway", "train", "recipes/quickstart.toml", "--json", "--fresh"]
        for key, value in sets.items():
            ours_command += ["--set", f"{key}={value}"]
        reference = {
            "tokens": str(tokens), "offset": TOKEN_FILE_PAYLOAD, "vocabulary": 257,
            "layers": layers, "width": width, "heads": heads, "hidden": hidden,
            "context": context, "batch": batch, "updates": updates, "threads": THREADS,
        }  # fmt: skip
        ours, theirs = [], []
        for round_number in range(rounds):
            out = folder / f"run-{width}-{round_number}"
            ours.append(json.loads(output_of([*ours_command, "--out", out])))
            theirs.append(
                json.loads(
                    output_of([sys.executable, "bench/torch_eager.py", json.dumps(reference)])
                )
            )
        assert ours[0]["parameters"] == theirs[0]["parameters"], "not the same model"
        speed = statistics.median(run["tokens_per_second"] for run in ours)
        speed_theirs = statistics.median(run["tokens_per_second"] for run in theirs)
        yield (
            f"train {name}", f"{speed:,.0f} tokens/s", f"PyTorch eager {speed_theirs:,.0f}",
            speed / speed_theirs, ">= 0.95", megabytes(ours[0]["peak_rss_bytes"]),
            megabytes(theirs[0]["peak_rss_bytes"]),
        )  # fmt: skip


def optimizer_rows(build):
    say("optimizer pass")
    for line in output_of([build / "bench/optim_bench"]).splitlines():
        if not line.startswith("AdamW"):
            continue
        name, speed, copy, ratio, peak = line.rsplit(None, 4)
        yield (
            f"{name} (64M)", f"{speed} GB/s", f"plain copy {copy}", float(ratio), ">= 0.70",
            peak, "-",
        )  # fmt: skip


def tokenizer_reference(folder, text):
    """GPT-2's own vocabulary where the shared data is, else one trained on the demo text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    shared = SHARED / "gpt2-bpe"
    if shared.is_dir():
        merges = (shared / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:-1]
        model = models.BPE(
            vocab=json.loads((shared / "encoder.json").read_text()),
            merges=[tuple(merge.split()) for merge in merges],
        )
        vocabulary = shared
    else:
        model = models.BPE()
        vocabulary = folder
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if vocabulary is folder:
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=8000, initial_alphabet=alphabet)
        tokenizer.train_from_iterator([text], trainer)
        tokenizer.model.save(str(folder))
    return tokenizer, vocabulary


def tokenizer_row(build, folder):
    say("GPT-2 BPE")
    compressed = SHARED / "wikitext-2" / "wiki.valid.raw.zst"
    text_file = folder / "text.txt"
    if compressed.is_file():
        text_file.write_bytes(subprocess.check_output(["zstd", "-dcq", compressed]))
        name = "WikiText-2 valid"
    else:
        torch_nn = sorted(REPOSITORY.glob(".venv/lib/python3*/site-packages/torch/nn/**/*.py"))
        text_file.write_text("".join(path.read_text() for path in torch_nn)[:1_200_000])
        name = "torch.nn sources"
    text = text_file.read_text(encoding="utf-8")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer, vocabulary = tokenizer_reference(folder, text)
    command = [build / "bench/text_bench", "encode", f"gpt2:{vocabulary}", text_file]
    # Lines are the package's best case: one long string is slower there.
    lines = text.splitlines(keepends=True)
    ours, theirs = [], []
    for _ in range(3):
        ours.append(json.loads(output_of(command)))
        start = time.perf_counter()
        encoded = tokenizer.encode_batch_fast(lines)
        theirs.append(len(text.encode()) / (time.perf_counter() - start))
    count = sum(len(line.ids) for line in encoded)
    assert abs(count - ours[0]["count"]) <= 0.001 * count, "not the same tokens"
    speed = max(run["per_second"] for run in ours) / 1e6
    return (
        f"GPT-2 BPE encode, one thread, {name}", f"{speed:.1f} MB/s",
        f"tokenizers {max(theirs) / 1e6:.1f}", speed / (max(theirs) / 1e6), ">= 2",
        megabytes(ours[0]["peak_rss_bytes"]), "-",
    )  # fmt: skip


def reading_row(build, data):
    say("token reading")
    result = json.loads(output_of([build / "bench/text_bench", "read", data / "train.tokens"]))
    speed = result["per_second"] / 1e9
    return (
        "token file, shuffled windows", f"{speed:.1f} GB/s", "floor 1.0", speed, ">= 1",
        megabytes(result["peak_rss_bytes"]), "-",
    )  # fmt: skip


def print_table(rows):
    heads = ("what", "ours", "reference", "ratio", "asked", "peak MB", "its peak MB")
    text = [[*row[:3], f"{row[3]:.2f}", *row[4:]] for row in rows]
    widths = [max(len(str(line[i])) for line in [heads, *text]) for i in range(len(heads))]
    rule = ["-" * width for width in widths]
    for line in [heads, rule, *text]:
        print("| " + " | ".join(str(cell).ljust(w) for cell, w in zip(line, widths)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3, help="of each side, by turns")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "data"
        corpus = next(REPOSITORY.glob(".venv/lib/python3*/site-packages/torch"))
        output_of(
            [build / "leeway", "data", "prepare", corpus, "--include", "*.py",
             "--tokenizer", "bytes", "--out", data]
        )  # fmt: skip
        rows = [*training_rows(build, data, folder, arguments.rounds)]
        rows += [*optimizer_rows(build), tokenizer_row(build, folder), reading_row(build, data)]
    print(f"{THREADS} threads; ratio: ours over the reference; medians of {arguments.rounds}\n")
    print_table(rows)


if __name__ == "__main__":
    main()
