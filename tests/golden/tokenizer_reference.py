"""What the tokenizer tests share: our side (a probe), the packages' side, and texts.

A byte-level BPE is trained here on torch's Python sources, so most tests need no data; those
that need the shared data are skipped if it is absent.
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import unicodedata

import numpy
import pytest
import torch
from places import SHARED, probe_path
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

PROBE = probe_path("tokenize_probe")
SEED = int(os.environ.get("LEEWAY_SEED", "7"))

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


class Probe:
    """A running tokenize_probe; see its source for the requests."""

    def __init__(self, spec):
        self.process = subprocess.Popen([PROBE, spec], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, request, payload, count=None):
        size = len(payload) if count is None else count
        self.process.stdin.write(request + struct.pack("<I", size) + payload)
        self.process.stdin.flush()
        return struct.unpack("<I", self.process.stdout.read(4))[0]

    def encode(self, text):
        count = self.ask(b"e", text if isinstance(text, bytes) else text.encode())
        return numpy.frombuffer(self.process.stdout.read(4 * count), dtype="<u4")

    def decode(self, ids):
        size = self.ask(b"d", numpy.asarray(ids, dtype="<u4").tobytes(), count=len(ids))
        return self.process.stdout.read(size)

    def safe_cut(self, text):
        return self.ask(b"c", text)

    def save(self, folder):
        return self.ask(b"s", str(folder).encode())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=120)


@pytest.fixture
def probe():
    """probe(spec): starts a probe that ends with the test."""
    started = []

    def start(spec):
        loaded = subprocess.run([PROBE, spec], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=60)
        if "this build has no" in loaded.stderr:
            pytest.skip(loaded.stderr.strip())
        assert loaded.returncode == 0, loaded.stderr
        started.append(Probe(spec))
        return started[-1]

    yield start
    for one in started:
        one.close()


def refusal(spec):
    """The error message when loading fails."""
    done = subprocess.run([PROBE, spec], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode in (1, 2), done
    return done.stderr


def python_sources(bytes_max):
    folder = pathlib.Path(torch.__file__).parent
    parts = []
    size = 0
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        parts.append(text)
        size += len(text)
        if size > bytes_max:
            break
    return "".join(parts)


def unpacked(name):
    done = subprocess.run(["zstd", "-dc", SHARED / name], capture_output=True, check=True)
    return done.stdout


def trained(pre_tokenizer, **options):
    """A small byte-level BPE; all 256 bytes and two special tokens."""
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=2000, show_progress=False,
                                  special_tokens=["</s>", "<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([python_sources(400_000)], trainer)
    return tokenizer


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """{name: (folder, reference)} of small vocabularies; each folder has tokenizer.json."""
    kinds = {
        "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
        "prefixed": pre_tokenizers.ByteLevel(add_prefix_space=True),
        "llama3": split_then_bytes(LLAMA3),
        "qwen2": split_then_bytes(QWEN2),
        "whole": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    }
    made = {}
    for name, pre_tokenizer in kinds.items():
        if name == "whole":  # trained on words, used on whole texts
            reference = Tokenizer.from_str(made["gpt2"][1].to_str())
            reference.pre_tokenizer = pre_tokenizer
        else:
            reference = trained(pre_tokenizer, ignore_merges=name == "llama3")
        folder = tmp_path_factory.mktemp(name)
        reference.save(str(folder / "tokenizer.json"))
        reference.model.save(str(folder))  # vocab.json and merges.txt
        made[name] = (folder, reference)
    return made


def random_texts(count, seed=SEED):
    """Words, spaces of all kinds, contractions and characters from everywhere in Unicode 14."""
    generator = random.Random(seed)
    pool = list("aZ19 '.-_\n\r\t\u00a0\u0085\u1680\u180e\u2003\u2028\u3000\u200b\ufeff\u017f\u212a"
                "éßǅʰªºа́中𐍈²½Ⅷ٣߀🙂👩\u200d🚀\u0301\x00\x1c\x7f")
    words = ["'s", "'S", "'t", "'re", "'VE", "'ll", "'Ll", "'d", "'m", " the", "  ", "   ", "\n\n",
             " \n ", "import torch", "1234567", "...", "<|endoftext|>", "</s>", " = ", "naïve",
             " 東京", "Привет", "\r\n", "    return", "don't", "!!\n\n", "_x"]
    for _ in range(count):
        parts = []
        for _ in range(generator.randrange(1, 30)):
            kind = generator.random()
            if kind < 0.4:
                parts.append(generator.choice(pool))
            elif kind < 0.8:
                parts.append(generator.choice(words))
            else:
                code = generator.randrange(0x3000 if kind < 0.9 else 0x20000)
                # Libraries disagree on whether what later versions of Unicode added is a letter.
                if not 0xD800 <= code < 0xE000 and assigned(code):
                    parts.append(chr(code))
        yield "".join(parts)


def assigned(code):
    return unicodedata.category(chr(code)) not in ("Cn", "Cs")


def without_specials(reference):
    """The reference with "<|endoftext|>" in a text as plain text, as in ours."""
    copy = json.loads(reference.to_str())
    copy["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(copy))


def check_same(ours, reference, texts, exact=True):
    plain = without_specials(reference)
    for text in texts:
        expected = plain.encode(text, add_special_tokens=False).ids
        found = ours.encode(text)
        assert found.tolist() == expected, f"{text!r} (LEEWAY_SEED={SEED})"
        if exact:
            assert ours.decode(found) == text.encode(), f"{text!r} (LEEWAY_SEED={SEED})"


def check_same_whole(ours, reference, text):
    expected = numpy.array(without_specials(reference).encode(text).ids, dtype="<u4")
    found = ours.encode(text)
    assert len(found) == len(expected)
    assert (found == expected).all()
