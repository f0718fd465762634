"""`leeway keys`: the key of a machine, which only its owner can read and nobody sees."""

import re
import stat

import pytest


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def key(place):
    """A new key: its file, its public part and its secret part."""
    done = place.ok("keys", "new", "berlin.key")
    file = place.folder / "berlin.key"
    secret = re.search(r'^secret = "(.{40})"$', file.read_text(), re.MULTILINE).group(1)
    assert secret not in done.stdout + done.stderr
    return file, done.stdout.strip(), secret


def test_a_new_key_is_for_its_owner_alone(place, key):
    file, public, secret = key
    assert len(public) == 40 and public != secret
    assert mode(file) == 0o600
    others = place.folder / "berlin.key.pub"
    assert mode(others) == 0o644 and others.read_text() == public + "\n"
    done = place.ok("keys", "new", "paris.key")
    assert "paris.key is secret" in done.stderr and "paris.key.pub" in done.stderr
    assert done.stdout.strip() != public


def test_an_existing_key_is_kept(place, key):
    file, _, secret = key
    before = file.read_text()
    sentence = place.refused(2, "keys", "new", "berlin.key")
    assert "a key is never overwritten" in sentence and secret not in sentence
    assert file.read_text() == before


def test_the_public_part_is_shown(place, key):
    _, public, _ = key
    for name in ("berlin.key", "berlin.key.pub"):
        done = place.ok("keys", "show", name)
        assert (done.stdout, done.stderr) == (public + "\n", "")


@pytest.mark.parametrize("others", [0o640, 0o604])
def test_a_key_that_others_can_read_is_refused(place, key, others):
    file, _, secret = key
    file.chmod(others)
    sentence = place.refused(1, "keys", "show", "berlin.key")
    assert "run chmod 600 berlin.key" in sentence and secret not in sentence
    file.chmod(0o600)
    place.ok("keys", "show", "berlin.key")


def test_a_damaged_key_is_refused_without_showing_it(place, key):
    file, public, secret = key
    text = file.read_text()
    other = place.ok("keys", "new", "paris.key").stdout.strip()
    for damaged in (text.replace(secret, secret[:-1]), text.replace("secret =", "sekret ="),
                    text.replace(public, other), secret):
        file.write_text(damaged)
        sentence = place.refused(1, "keys", "show", "berlin.key")
        assert "leeway keys new" in sentence and secret[:20] not in sentence


def test_help_has_examples(place):
    assert "leeway keys new berlin.key" in place.ok("keys", "--help").stdout
    assert "leeway keys new berlin.key" in place.ok("keys", "new", "--help").stdout
    assert "leeway keys show berlin.key" in place.ok("keys", "show", "--help").stdout
