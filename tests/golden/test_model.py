"""One forward and backward of both architectures: loss, logits and gradients equal PyTorch's."""

import pytest
import torch

import model_reference as reference

BATCH, TIME = 3, 19


def run_both(tmp_path, shape, dtype, stages, compute=None):
    weights = reference.random_weights(shape, dtype)
    tokens = {
        "ids": reference.random_tokens(shape, BATCH, TIME, seed=1),
        "targets": reference.random_tokens(shape, BATCH, TIME, seed=2),
    }
    word = str(dtype).removeprefix("torch.")
    ours = reference.run_probe(
        tmp_path,
        {**weights, **tokens},
        shape=shape,
        stages=stages,
        master=word,
        compute=compute or word,
    )
    for tensor in weights.values():
        tensor.requires_grad_()
    logits = reference.forward(shape, weights, tokens["ids"])
    loss = reference.loss_of(logits, tokens["targets"])
    loss.backward()
    expected = {f"gradient/{name}": tensor.grad for name, tensor in weights.items()}
    expected["logits"] = logits.detach()
    expected["loss"] = loss.detach()
    return ours, expected


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("shape", reference.SHAPES, ids=reference.name_of)
@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-10)], ids=["fp32", "fp64"]
)
def test_equals_pytorch(tmp_path, shape, dtype, tolerance, stages):
    ours, expected = run_both(tmp_path, shape, dtype, stages)
    reference.assert_close(ours, expected, tolerance)


@pytest.mark.parametrize("shape", reference.SHAPES, ids=reference.name_of)
def test_bf16_compute_is_near(tmp_path, shape):
    # Eight bits of mantissa through three blocks and back, and near ReLU's corner a sign may flip:
    # a few per cent, while a wrong formula is off by half or more.
    ours, expected = run_both(tmp_path, shape, torch.float32, 1, compute="bfloat16")
    reference.assert_close(ours, expected, 0.15)


@pytest.mark.parametrize(
    "shape", [reference.LLAMA_GROUPED, reference.GPT2_GELU], ids=reference.name_of
)
def test_stages_change_no_bit(tmp_path, shape):
    whole, _ = run_both(tmp_path, shape, torch.float32, 1)
    cut, _ = run_both(tmp_path, shape, torch.float32, 3)
    assert set(whole) == set(cut)
    assert [name for name in whole if not torch.equal(whole[name], cut[name])] == []


def test_the_comparison_notices_one_wrong_weight(tmp_path):
    ours, expected = run_both(tmp_path, reference.LLAMA, torch.float32, 1)
    reference.assert_close(ours, expected, 1e-5)
    wrong = {**expected, "logits": expected["logits"].clone()}
    wrong["logits"][7, 5] += 1e-2
    with pytest.raises(AssertionError, match="logits"):
        reference.assert_close(ours, wrong, 1e-5)
    missing = {name: tensor for name, tensor in expected.items() if "mlp_norm" not in name}
    with pytest.raises(AssertionError, match="mlp_norm"):
        reference.assert_close(ours, missing, 1e-5)
    nan = {**expected, "loss": torch.tensor(float("nan"))}
    with pytest.raises(AssertionError, match="loss"):
        reference.assert_close(ours, nan, 1e-5)


@pytest.mark.parametrize("name", ["layers.1.attention.k.weight", "layers.2.mlp.gate.weight"])
def test_the_reference_depends_on_every_weight(name):
    # Moving one element by a thousandth must exceed the tolerance, or the test above is blind.
    shape = reference.LLAMA_GROUPED
    ids = reference.random_tokens(shape, BATCH, TIME)
    weights = reference.random_weights(shape, torch.float64)
    before = reference.forward(shape, weights, ids)
    weights[name].view(-1)[3] += 1e-3
    assert reference.distance(reference.forward(shape, weights, ids), before) > 1e-5
