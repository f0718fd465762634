"""We and the Python package read each other's safetensors files."""

import subprocess

import pytest
import torch
from places import probe_path
from safetensors import safe_open
from safetensors.torch import load_file, save_file

PROBE = probe_path("safetensors_probe")


def probe(*arguments):
    return subprocess.run([PROBE, *map(str, arguments)], capture_output=True, text=True)


def ramp(dtype):
    steps = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
    return (steps / 4 - 2 if dtype.is_floating_point else steps).to(dtype)


def assert_same(actual, expected):
    assert set(actual) == set(expected)
    for name, tensor in expected.items():
        assert actual[name].dtype == tensor.dtype, name
        assert actual[name].shape == tensor.shape, name
        # Bytes, not values: a NaN with another payload is another tensor.
        assert actual[name].contiguous().reshape(-1).view(torch.uint8).equal(
            tensor.contiguous().reshape(-1).view(torch.uint8)
        ), name


def test_python_reads_ours(tmp_path):
    path = tmp_path / "ours.safetensors"
    done = probe("write", path)
    assert done.returncode == 0, done.stderr
    names = {
        "Byte": torch.uint8,
        "Half": torch.float16,
        "Double": torch.float64,
        "BFloat16": torch.bfloat16,
        "Float": torch.float32,
        "Long": torch.int64,
        "Int": torch.int32,
    }
    expected = {f"ramp.{name}": ramp(dtype) for name, dtype in names.items()}
    expected["transposed"] = ramp(torch.float32)[1].t()
    expected["scalar"] = torch.tensor(0.5)
    expected["empty"] = torch.empty(0, 3)
    expected["three bytes"] = torch.arange(3, dtype=torch.uint8)
    assert_same(load_file(path), expected)
    with safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt", "maker": "leeway"}


def test_ours_reads_python(tmp_path):
    generator = torch.Generator().manual_seed(3)
    tensors = {
        "weight": torch.randn(5, 7, generator=generator),
        "half": torch.randn(3, generator=generator).to(torch.float16),
        "brain": torch.randn(9, generator=generator).to(torch.bfloat16),
        "double": torch.randn(2, 2, generator=generator, dtype=torch.float64),
        "not a number": torch.tensor([float("nan"), float("inf"), -0.0]),
        "long": torch.tensor([-(2**63), 2**63 - 1]),
        "int": torch.tensor([-5], dtype=torch.int32),
        "byte": torch.arange(5, dtype=torch.uint8),
        "scalar": torch.tensor(3.25),
        "empty": torch.empty(4, 0),
        "größe \"x\"": torch.ones(1),
    }
    theirs, copied = tmp_path / "theirs.safetensors", tmp_path / "copied.safetensors"
    save_file(tensors, theirs, metadata={"format": "pt", "späße": "a\nb"})
    done = probe("copy", theirs, copied)
    assert done.returncode == 0, done.stderr
    assert_same(load_file(copied), tensors)
    with safe_open(copied, "pt") as file:
        assert file.metadata() == {"format": "pt", "späße": "a\nb"}


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_cut_file_is_one_sentence(tmp_path, share):
    path = tmp_path / "cut.safetensors"
    save_file({"weight": torch.ones(100, 100)}, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    done = probe("copy", path, tmp_path / "copied.safetensors")
    assert done.returncode == 1
    assert done.stderr.startswith(f"{path} is cut short: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "copied.safetensors").exists()


def test_the_comparison_can_fail():
    with pytest.raises(AssertionError):
        assert_same({"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([1.0, 2.5])})
    with pytest.raises(AssertionError):
        assert_same({"w": torch.ones(2, dtype=torch.float64)}, {"w": torch.ones(2)})
