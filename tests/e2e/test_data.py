"""`leeway data prepare`: what is text and what is not, and what a recipe makes of a single text."""

import bz2
import gzip
import json
import lzma

import pytest

TEXT = "".join(f"Line {i} of a single text, with words.\n" for i in range(2000))
FOREIGN = {
    "table.csv": (b"a,b\n1,hello\n", "is a CSV table, not text; convert it to JSONL"),
    "a.parquet": (b"PAR1\x15\x04\x15", "is a Parquet file, not text; convert it to JSONL"),
    "a.txt.xz": (lzma.compress(b"text"), "is an xz file, not text; decompress it with xz -d"),
    "a.txt.bz2": (bz2.compress(b"text"), "is a bzip2 file, not text; decompress it with bzip2 -d"),
    "wide.txt": ("hello".encode("utf-16"), "iconv -f utf-16 -t utf-8"),
    "a.png": (b"\x89PNG\r\n\x1a\n\0\0", "is a PNG image, not text"),
    "noise.txt": (bytes(range(200, 0, -1)) * 4, "is not UTF-8 text"),
    "zero.txt": (b"some text\0 and more", "is a binary file, not text (byte 9 is zero)"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_not_text_is_refused_with_what_to_do(place, name):
    content, words = FOREIGN[name]
    (place.folder / name).write_bytes(content)
    assert words in place.refused(1, "data", "prepare", name, "--out", "data")
    assert not (place.folder / "data").exists()


def test_a_folder_skips_what_is_not_text_and_says_so(place):
    for name, (content, _) in FOREIGN.items():
        (place.folder / "corpus" / name).write_bytes(content)
    done = place.ok("data", "prepare", "corpus", "--out", "data")
    assert f"skipped {len(FOREIGN)} files that are not text: " in done.stdout
    assert "1 CSV table" in done.stdout and "1 PNG image" in done.stdout
    assert "12 files in" in place.ok("data", "info", "data").stdout
    # A recipe that names the folder says the same, and trains.
    done = place.ok("train", "tiny.toml", "--out", "r")
    assert f"skipped {len(FOREIGN)} files that are not text: " in done.stderr


def test_json_lines(place):
    lines = [json.dumps({"id": i, "text": f"Document {i}\nof many."}) for i in range(40)]
    lines[3], lines[16] = '{"text": "cut', '{"id": 5}'
    with gzip.open(place.folder / "a.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    done = place.ok("data", "prepare", "a.jsonl.gz", "--out", "data")
    assert "in 38 documents" in done.stdout
    assert "skipped 2 lines of JSONL" in done.stdout
    assert "a.jsonl.gz line 4, a.jsonl.gz line 17 (the first is not JSON)" in done.stdout
    assert b"{" not in (place.folder / "data/train.tokens").read_bytes()[64:]
    sentence = place.refused(1, "data", "prepare", "a.jsonl.gz", "--field", "body", "--out", "data")
    assert "line 1 has the fields id, text" in sentence and "--field" in sentence


def test_a_slip_after_documents_is_refused(place):
    sentence = place.refused(2, "data", "prepare", "corpus", "--documents", "lines", "--out", "d")
    assert "'lines'" in sentence and "did you mean line?" in sentence
    assert "separator:lines" in sentence


def test_a_split_pattern_that_backtracks_is_an_error(place):
    alphabet = [chr(b) if b in range(33, 127) or b in range(161, 173) or b > 173 else None
                for b in range(256)]  # fmt: skip
    spare = iter(range(256, 512))
    vocabulary = {c or chr(next(spare)): i for i, c in enumerate(alphabet)}
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    steps = {"type": "Sequence", "pretokenizers": [split, byte_level]}
    file = {"added_tokens": [], "pre_tokenizer": steps, "model": model}
    (place.folder / "back.json").write_text(json.dumps(file))
    (place.folder / "a.txt").write_text("a" * 100_000 + "!\n")
    arguments = ("data", "prepare", "a.txt", "--tokenizer", "hf:back.json", "--out", "d")
    assert "split pattern takes too many steps" in place.refused(1, *arguments)


def test_a_single_text_is_validated_on_its_end(place):
    (place.folder / "one.txt").write_text(TEXT)
    sets = place.sets(data__train="one.txt", data__valid_share=0.05)
    done = place.ok("train", "tiny.toml", "--out", "r", "--json", *sets)
    assert "validation data: the last " in done.stderr
    whole = json.loads(done.stdout)
    assert whole["valid_loss"] is not None
    # Stopped, resumed and replayed: the recipe is read again, and gives the same split.
    place.ok("train", "tiny.toml", "--out", "s", "--stop-at", 6, *sets)
    again = json.loads(place.ok("train", "--resume", "--out", "s", "--json").stdout)
    assert again["weights_hash"] == whole["weights_hash"]
    assert again["valid_loss"] == whole["valid_loss"]
    place.ok("replay", "r")
    off = place.ok("train", "tiny.toml", "--out", "t", "--json", *sets,
                   "--set", "data.valid_share=0")  # fmt: skip
    assert "validation data" not in off.stderr and json.loads(off.stdout)["valid_loss"] is None
    prepared = place.ok("data", "prepare", "one.txt", "--out", "data").stdout
    assert "its end, because it has too few documents" in prepared
