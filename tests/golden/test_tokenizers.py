"""Compares our byte-level BPE with the Python package `tokenizers`, id for id."""

import itertools
import json
import random
import re

import numpy
import pytest
from places import SHARED
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizer_reference import (
    SEED,
    check_same,
    check_same_whole,
    probe,
    python_sources,
    random_texts,
    refusal,
    small,
    unpacked,
)

needs_gpt2 = pytest.mark.skipif(not (SHARED / "gpt2-bpe").is_dir(),
                                reason="no GPT-2 vocabulary in ../shared/data/gpt2-bpe")


@pytest.mark.parametrize("name", ["gpt2", "prefixed", "llama3", "qwen2", "whole"])
def test_small_vocabularies_from_tokenizer_json(small, probe, name):
    folder, reference = small[name]
    ours = probe(f"hf:{folder}/tokenizer.json")
    check_same(ours, reference, random_texts(1500), exact=name != "prefixed")
    check_same_whole(ours, reference, python_sources(300_000))


def test_small_vocabulary_from_gpt2_files(small, probe):
    folder, reference = small["gpt2"]
    check_same(probe(f"gpt2:{folder}"), reference, random_texts(500))


def test_merges_as_pairs_and_as_strings(small, probe, tmp_path):
    folder, reference = small["llama3"]
    pairs = json.loads((folder / "tokenizer.json").read_text())
    assert isinstance(pairs["model"]["merges"][0], list)
    pairs["model"]["merges"] = [" ".join(merge) for merge in pairs["model"]["merges"]]
    (tmp_path / "strings.json").write_text(json.dumps(pairs))
    check_same(probe(f"hf:{tmp_path}/strings.json"), reference, random_texts(100))


def test_a_wrong_vocabulary_is_noticed(small, probe):
    """Tests the comparison itself: another tokenizer must not pass for the right one."""
    folder, _ = small["gpt2"]
    with pytest.raises(AssertionError):
        check_same(probe(f"hf:{folder}/tokenizer.json"), small["qwen2"][1], random_texts(100))


def test_ignore_merges_takes_the_piece_that_is_a_token(probe, tmp_path):
    """Llama 3: a word in the vocabulary that no merges produce."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: i for i, character in enumerate(alphabet)}
    vocabulary["abc"] = 256
    for ignore, expected in ((True, [256]), (False, [vocabulary[c] for c in "abc"])):
        reference = Tokenizer(models.BPE(vocabulary, [], ignore_merges=ignore))
        reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        reference.save(str(tmp_path / "tokenizer.json"))
        assert reference.encode("abc").ids == expected
        assert probe(f"hf:{tmp_path}/tokenizer.json").encode("abc").tolist() == expected


def test_the_class_of_every_code_point(probe, tmp_path):
    """A vocabulary that joins A, 1 and ! with any byte after them shows in its ids which of them a
    character shares a piece with. Planes without characters are sampled, one code point in 31."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(first, second) for first in "A1!" for second in alphabet]
    names = alphabet + ["".join(merge) for merge in merges]
    reference = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, merges))
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.save(str(tmp_path / "tokenizer.json"))
    ours = probe(f"hf:{tmp_path}/tokenizer.json")
    assert len({len(ours.encode(text)) for text in ("A\u00e9", "A\u00bf")}) == 2
    codes = list(itertools.chain(range(0xD800), range(0xE000, 0x34000), range(0x34000, 0xE0000, 31),
                                 range(0xE0000, 0xE0200), range(0xE0200, 0x110000, 31)))
    texts = ["".join(f"A{chr(code)}1{chr(code)}!{chr(code)}" for code in codes[begin:begin + 100])
             for begin in range(0, len(codes), 100)]
    for text, encoded in zip(texts, reference.encode_batch_fast(texts)):
        assert ours.encode(text).tolist() == encoded.ids, f"from U+{ord(text[1]):X}"


@pytest.mark.parametrize("name", ["gpt2", "llama3"])
def test_safe_cuts_give_the_ids_of_the_whole(small, probe, name):
    folder, _ = small[name]
    ours = probe(f"hf:{folder}/tokenizer.json")
    text = python_sources(100_000).encode()
    whole = ours.encode(text).tolist()
    joined = []
    size = 1500
    while text:
        cut = ours.safe_cut(text[:size]) if len(text) > size else len(text)
        assert cut > 0
        joined += ours.encode(text[:cut]).tolist()
        text = text[cut:]
    assert joined == whole


def test_no_safe_cut_where_the_pattern_allows_none(small, probe):
    folder, _ = small["whole"]
    assert probe(f"hf:{folder}/tokenizer.json").safe_cut(b"some words\n and lines") == 0


def test_broken_utf8_is_kept(small, probe):
    generator = random.Random(SEED)
    for name in ("gpt2", "llama3"):
        ours = probe(f"hf:{small[name][0]}/tokenizer.json")
        for _ in range(300):
            text = bytes(generator.choice(b"a 1\n'\x80\xbf\xc3\xa9\xe2\x80\x83\xf0\x9f\xff")
                         for _ in range(generator.randrange(40)))
            assert ours.decode(ours.encode(text)) == text, f"{text!r} (LEEWAY_SEED={SEED})"


def test_saved_files_load_here_and_in_the_tokenizers_package(small, probe, tmp_path):
    folder, reference = small["gpt2"]
    for spec in (f"gpt2:{folder}", f"hf:{folder}/tokenizer.json"):
        place = tmp_path / spec.split(":")[0]
        assert probe(spec).save(place) == 0
        check_same(probe(f"saved:{place}"), reference, random_texts(100))
        loaded = Tokenizer.from_file(str(place / "tokenizer.json"))
        text = "def f(x): return x  # naïve\n"
        assert loaded.encode(text).ids == reference.encode(text).ids
        assert loaded.decode(loaded.encode(text).ids) == text


@pytest.mark.parametrize("change, words", [
    ({"normalizer": {"type": "NFC"}}, "normalizer 'NFC'"),
    ({"pre_tokenizer": {"type": "Metaspace", "replacement": "▁"}}, "pre_tokenizer 'Metaspace'"),
    ({"pre_tokenizer": None}, "pre_tokenizer 'none'"),
    ({"model": {"type": "Unigram", "vocab": []}}, "type 'Unigram'"),
    ({"added_tokens": [{"id": 5000, "content": "<x>", "special": False}]}, "'<x>'"),
])
def test_what_is_not_supported_is_named(small, tmp_path, change, words):
    text = json.loads((small["gpt2"][0] / "tokenizer.json").read_text())
    text.update(change)
    (tmp_path / "tokenizer.json").write_text(json.dumps(text))
    message = refusal(f"hf:{tmp_path}/tokenizer.json")
    assert words in message and "not supported" in message


@pytest.fixture(scope="module")
def gpt2():
    folder = SHARED / "gpt2-bpe"
    reference = Tokenizer(models.BPE.from_file(str(folder / "encoder.json"),
                                               str(folder / "vocab.bpe")))
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return reference


@needs_gpt2
def test_gpt2_vectors(probe):
    ours = probe(f"gpt2:{SHARED}/gpt2-bpe")
    vectors = [json.loads(line) for line in (SHARED / "gpt2-bpe/test-vectors.jsonl").open()]
    assert len(vectors) == 18
    for vector in vectors:
        assert ours.encode(vector["text"]).tolist() == vector["ids"], vector["text"]


@needs_gpt2
def test_gpt2_random_unicode(probe, gpt2):
    check_same(probe(f"gpt2:{SHARED}/gpt2-bpe"), gpt2, random_texts(4000))


@needs_gpt2
@pytest.mark.skipif(not (SHARED / "wikitext-2").is_dir(), reason="no ../shared/data/wikitext-2")
def test_gpt2_wikitext2(probe, gpt2):
    ours = probe(f"gpt2:{SHARED}/gpt2-bpe")
    text = unpacked("wikitext-2/wiki.train.tokens.zst")
    found = ours.encode(text)
    assert len(found) == 2_448_382
    assert ours.decode(found) == text
    # In parts, because the package takes ten times as long for the whole text. No piece of GPT-2's
    # pattern goes from a letter into a space.
    parts = re.findall(r"(?s).{,100000}(?<=[a-z])(?= )|.+", text.decode())
    assert "".join(parts) == text.decode() and len(parts) > 100
    expected = [id for encoded in gpt2.encode_batch_fast(parts) for id in encoded.ids]
    assert (found == numpy.array(expected, dtype="<u4")).all()


@needs_gpt2
def test_gpt2_one_word_of_a_megabyte(probe, gpt2):
    """n log n, not n squared: this ends in a second or not at all."""
    ours = probe(f"gpt2:{SHARED}/gpt2-bpe")
    word = "".join(random.Random(SEED).choices("abcdefgh", k=1_000_000))
    assert ours.decode(ours.encode(word)) == word.encode()
    check_same_whole(ours, gpt2, word[:100_000])
    check_same_whole(ours, gpt2, "a" * 100_000)
