"""Hugging Face opens what we write, we open what it writes, and the logits are the same."""

import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import transformers

import model_reference as reference

BATCH, TIME = 2, 17
# Ten times the observed error; at 1e-4 a single weight that is off by 1e-3 would pass.
TOLERANCE = 1e-5
EXPECTED_CLASS = {"llama": "LlamaForCausalLM", "gpt2": "GPT2LMHeadModel"}


def logits_of(model, ids):
    with torch.no_grad():
        return model(ids).logits.flatten(0, 1)


def export(tmp_path, shape, stages):
    """Runs ours: returns tokens and logits, and writes a folder for Hugging Face."""
    tokens = reference.random_tokens(shape, BATCH, TIME)
    ours = reference.run_probe(
        tmp_path,
        {
            **reference.random_weights(shape, torch.float32),
            "ids": tokens,
            "targets": tokens.clone(),
        },
        shape=shape,
        stages=stages,
        master="float32",
        compute="float32",
        export=str(tmp_path / "exported"),
    )
    return tokens, ours["logits"]


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("shape", reference.SHAPES, ids=reference.name_of)
def test_hugging_face_opens_ours(tmp_path, shape, stages):
    ids, expected = export(tmp_path, shape, stages)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "exported", output_loading_info=True
    )
    assert type(model).__name__ == EXPECTED_CLASS[shape.architecture]
    assert model.dtype == torch.float32
    problems = {key: value for key, value in report.items() if value}
    assert problems == {}
    assert model.lm_head.weight.data_ptr() != model.get_input_embeddings().weight.data_ptr()
    assert reference.distance(expected, logits_of(model, ids)) < TOLERANCE


@pytest.mark.parametrize("shape", reference.SHAPES, ids=reference.name_of)
def test_generation_never_stops_at_a_token_of_another_vocabulary(tmp_path, shape):
    ids, _ = export(tmp_path, shape, 1)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "exported")
    text = model.generate(ids[:1, :3], max_new_tokens=12, do_sample=False, pad_token_id=0)
    assert text.shape == (1, 15)


@pytest.mark.parametrize("shape", reference.SHAPES, ids=reference.name_of)
def test_we_open_what_hugging_face_saves(tmp_path, shape):
    ids, _ = export(tmp_path, shape, 1)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "exported")
    with torch.no_grad():  # weights other than those we wrote
        for name, parameter in model.named_parameters():
            if shape.bias or not name.endswith(".bias"):
                parameter.mul_(1.25)
    model.save_pretrained(tmp_path / "saved")
    ours = reference.run_probe(
        tmp_path, {"ids": ids}, open=str(tmp_path / "saved"), master="float32", compute="float32"
    )
    assert reference.distance(ours["logits"], logits_of(model, ids)) < TOLERANCE


def test_the_comparison_notices_another_rotary_base(tmp_path):
    ids, expected = export(tmp_path, reference.LLAMA, 1)
    path = tmp_path / "exported" / "config.json"
    config = json.loads(path.read_text())
    config["rope_parameters"]["rope_theta"] = 9000.0
    path.write_text(json.dumps(config))
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "exported")
    assert reference.distance(expected, logits_of(model, ids)) > 1e-3
