"""Compares our SentencePiece tokenizer with the Python package, id for id."""

import pytest
import sentencepiece
from places import SHARED
from tokenizer_reference import SEED, probe, python_sources, random_texts

needs_sentencepiece = pytest.mark.skipif(
    not (SHARED / "sentencepiece").is_dir(),
    reason="no SentencePiece model in ../shared/data/sentencepiece")


@pytest.fixture(scope="module")
def small_sentencepiece(tmp_path_factory):
    """Two models trained here: the usual normalizer, and one that keeps spaces as they are."""
    folder = tmp_path_factory.mktemp("sentencepiece")
    (folder / "text.txt").write_text(python_sources(300_000))
    for name, options in (("usual", {}), ("identity", {"normalization_rule_name": "identity",
                                                       "remove_extra_whitespaces": False,
                                                       "byte_fallback": True,
                                                       "model_type": "bpe"})):
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text.txt"), model_prefix=str(folder / name), vocab_size=600,
            hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    return folder


def check_sentencepiece(ours, path, texts):
    reference = sentencepiece.SentencePieceProcessor(model_file=str(path))
    for text in texts:
        expected = reference.encode(text)
        assert ours.encode(text).tolist() == expected, f"{text!r} (LEEWAY_SEED={SEED})"
        assert ours.decode(expected).decode() == reference.decode(expected)


@pytest.mark.parametrize("name", ["usual", "identity"])
def test_sentencepiece_trained_here(small_sentencepiece, probe, name):
    path = small_sentencepiece / f"{name}.model"
    check_sentencepiece(probe(f"sentencepiece:{path}"), path, python_sources(60_000).splitlines())


def test_sentencepiece_cuts(small_sentencepiece, probe):
    text = python_sources(60_000).encode()
    ours = probe(f"sentencepiece:{small_sentencepiece}/usual.model")
    joined = []
    rest = text
    while rest:
        cut = ours.safe_cut(rest[:3000]) if len(rest) > 3000 else len(rest)
        assert cut > 0
        joined += ours.encode(rest[:cut]).tolist()
        rest = rest[cut:]
    assert joined == ours.encode(text).tolist()
    # Here the second part would start with one space too many.
    assert probe(f"sentencepiece:{small_sentencepiece}/identity.model").safe_cut(text[:3000]) == 0


@needs_sentencepiece
def test_sentencepiece_real_model(probe, tmp_path):
    path = SHARED / "sentencepiece/google-test-1k.model"
    ours = probe(f"sentencepiece:{path}")
    texts = ["Hello world", "  two  spaces ", "naïve 東京 ½", "", "a\nb\tc"]
    texts += list(random_texts(200)) + python_sources(20_000).splitlines()
    check_sentencepiece(ours, path, texts)
    assert ours.save(tmp_path / "saved") == 0
    check_sentencepiece(probe(f"saved:{tmp_path}/saved"), path, texts[:50])
