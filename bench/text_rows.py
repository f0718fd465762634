"""Rows of `make bench` about text: the tokenizer beside its reference, and reading token files."""

import json
import os
import subprocess
import time

from programs import REPOSITORY, SHARED, megabytes, output_of, say


def tokenizer_reference(folder, text):
    """GPT-2's own vocabulary if the shared data is there, else one trained on the demo text."""
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
    # Lines are the package's best case: one long string is slower.
    lines = text.splitlines(keepends=True)
    ours, theirs = [], []
    for _ in range(3):
        ours.append(json.loads(output_of(command)))
        start = time.perf_counter()
        tokenizer.encode_batch_fast(lines)
        theirs.append(len(text.encode()) / (time.perf_counter() - start))
    assert len(tokenizer.encode(text).ids) == ours[0]["count"], "not the same tokens"
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
