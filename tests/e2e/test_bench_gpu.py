"""What `make bench-gpu` runs on a GPU, on the CPU and tiny: that it works and compares like with
like. Speeds are not looked at."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest
import torch
from places import BUILD, LEEWAY, REPOSITORY
from safetensors.torch import load_file

FOLDER = REPOSITORY / "bench" / "gpu"
sys.path.insert(0, str(FOLDER))

import curves  # noqa: E402
import kernel_classes  # noqa: E402
import ours  # noqa: E402
import parts  # noqa: E402
import token_windows  # noqa: E402
import torch_model  # noqa: E402

CPU = ["run.device=cpu", "run.precision=fp32", "run.threads_per_worker=1"]
TINY = [f"{key}={value}" for key, value in parts.TINY_SETS.items()]
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
RECIPES = sorted((FOLDER / "recipes").glob("*.toml"))


def run(*words, status=0):
    done = subprocess.run(
        [str(word) for word in words], cwd=REPOSITORY, capture_output=True, text=True, timeout=300,
        env=QUIET,
    )  # fmt: skip
    assert done.returncode == status, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench-gpu")
    text = folder / "text.txt"
    text.write_text("".join(f"line {i * i % 977} of a small text\n" for i in range(2000)))
    run(LEEWAY, "data", "prepare", text, "--out", folder / "data")
    return folder / "data"


def our_names(weights):
    """Hugging Face's names and layouts, which checkpoints have -> torch_model.py's."""
    renamed = {}
    for name, value in weights.items():
        if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            value = value.t()
        for theirs, own in {
            "transformer.wte": "embedding", "transformer.wpe": "positions",
            "transformer.h.": "blocks.", "transformer.ln_f": "final_norm", "lm_head": "head",
            ".ln_1.": ".attention_norm.", ".ln_2.": ".mlp_norm.", "attn.c_attn": "qkv",
            "attn.c_proj": "out", "mlp.c_fc": "up", "mlp.c_proj": "down",
            "model.embed_tokens": "embedding", "model.norm": "final_norm",
            "model.layers.": "blocks.", "input_layernorm": "attention_norm",
            "post_attention_layernorm": "mlp_norm", "self_attn.o_proj": "out",
            "mlp.down_proj": "down",
        }.items():  # fmt: skip
            name = name.replace(theirs, own)
        renamed[name] = value.contiguous()
    return renamed


def joined(weights):
    """Llama's q, k and v, and gate and up, as one matrix each."""
    result = dict(weights)
    for name in [name for name in weights if name.endswith("self_attn.q_proj.weight")]:
        at = name.removesuffix("self_attn.q_proj.weight")
        for own, pieces in (
            ("qkv", [f"self_attn.{letter}_proj" for letter in "qkv"]),
            ("up", ["mlp.gate_proj", "mlp.up_proj"]),
        ):
            matrices = [result.pop(f"{at}{piece}.weight") for piece in pieces]
            result[f"{at}{own}.weight"] = torch.cat(matrices)
    return result


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_both_sides_train_the_same_model_on_the_same_data(recipe, data, tmp_path):
    """From the same weights the losses agree: so do data, model, clipping, optimizer, rates."""
    sets = [*CPU, *TINY]
    words = ours.train_words(recipe, data, [*sets, "optimizer.rate=1e-30"], tmp_path / "still")
    run(LEEWAY, *words, "--stop-at", "1")
    words = ours.train_words(recipe, data, sets, tmp_path / "run")
    run(LEEWAY, *words)
    events = ours.Updates(tmp_path / "run").read()
    torch.set_num_threads(1)
    training = torch_model.Training(torch_model.load_recipe(recipe, sets), data, "eager", pad=1)
    (model,) = (tmp_path / "still" / "checkpoints").glob("*/model.safetensors")
    training.model.load_state_dict(joined(our_names(load_file(model))))
    for _ in events:
        training.update()
    assert len(events) == parts.TINY_SETS["run.updates"]
    assert [loss.item() for loss in training.losses] == pytest.approx(
        [event["loss"] for event in events], abs=1e-4
    )


def test_windows_are_the_samplers():
    """The same figures as in tests/unit/data/sampler_test.cpp."""
    assert token_windows.permuted(1, 0, 0, 1000) == 560
    assert token_windows.permuted(1, 0, (7 * 2 + 1) * 3 + 2, 1000) == 837
    assert token_windows.permuted(1, 3, 1, 1000) == 813


def run_part(part, data, *words, build=BUILD, status=0):
    return run(sys.executable, FOLDER / "run.py", "--tiny", "--device", "cpu", "--part", part,
               "--data", data, "--build", build, *words, status=status)  # fmt: skip


@pytest.mark.parametrize("part", ["shapes", "mesh"])
def test_a_part_has_its_ratios(part, data):
    text = run_part(part, data)
    for ratio in parts.PARTS[part].ratios:
        row = rf"\| {re.escape(ratio.names[0])} \| {re.escape(ratio.names[1])} \| [\d.]+ \|"
        assert re.search(row, text), text


def test_a_part_can_be_some_of_its_sides(data):
    text = run_part("mesh", data, "--only", "sparse")
    assert "4 x 2, sparse" in text and "lowbit" not in text
    assert not parts.PARTS["mesh"].only("sparse").ratios
    assert parts.PARTS["mesh"].only("163M").ratios == parts.PARTS["mesh"].ratios
    run_part("mesh", data, "--only", "17B", status=1)


def test_curves_are_means_of_updates(tmp_path):
    run_folder, lines = tmp_path / "run", []
    run_folder.mkdir()
    for update in range(1, 8):
        facts = {"update": update, "tokens": 10 * update, "loss": 10.0 - update}
        lines += [{"event": "update", **facts}, {"event": "contributed", "update": update}]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (run_folder / "events.jsonl").write_text(text)
    losses = curves.losses_of(run_folder)
    assert curves.curve_of(losses, 3) == [(30, 8.0), (60, 5.0)]  # the seventh has no company
    picture = tmp_path / "curves.svg"
    words = [sys.executable, FOLDER / "curves.py", "--out", picture, "--every", "3"]
    run(*words, f"a < b={run_folder}", f"again={run_folder / 'events.jsonl'}")
    root = xml.etree.ElementTree.parse(picture).getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a < b" in texts and "again" in texts
    run(*words, f"gone={tmp_path / 'gone'}", status=1)
    run(*words, "--every", "8", f"short={run_folder}", status=1)
    run(*words, "nameless", status=1)


def test_parts_append_to_a_file_and_name_what_failed(data, tmp_path):
    file = tmp_path / "out" / "gpu.md"
    run_part("kernels", data, "--append", file)
    (tmp_path / "leeway").symlink_to(sys.executable)  # which is no leeway
    run_part("mesh", data, "--append", file, build=tmp_path, status=1)
    text = file.read_text()
    assert "## kernels, cpu" in text and "TFLOP/s" in text
    assert text.count("after 0 updates: ") == len(parts.PARTS["mesh"].sides)


def test_kernels_are_recorded_on_both_sides(data):
    library = BUILD / "bench" / "libleeway_main.so"
    if not library.exists():
        pytest.skip("a build without benchmarks")
    words = [word for change in [*CPU[1:], *TINY, "run.updates=5000"] for word in ("--set", change)]
    text = run(sys.executable, FOLDER / "profile_kernels.py", "ours", "eager", "--device", "cpu",
               "--data", data, "--build", BUILD, "--steady", 3, "--updates", 3, *words)  # fmt: skip
    row = re.search(r"\| matrix products \| ([\d.]+) \| ([\d.]+) \| [+-][\d.]+ \|", text)
    assert row and float(row[1]) > 0 and float(row[2]) > 0, text


@pytest.mark.parametrize(
    "name, label",
    [
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", "matrix products"),
        ("void pytorch_flash::flash_bwd_kernel<cutlass::bfloat16_t>", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", "attention"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<Fused>", "optimizer"),
        ("void at::native::vectorized_layer_norm_kernel<float, float>", "norm"),
        ("triton_per_fused_add_native_layer_norm_view_4", "norm"),
        ("triton_poi_fused__to_copy_12", "copies, casts"),
        ("triton_poi_fused_gelu_view_8", "elementwise"),
        ("triton_red_fused__log_softmax_nll_loss_forward_9", "softmax, loss"),
        ("void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda>", "copies, casts"),
        ("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>",
         "elementwise"),
        ("void at::native::reduce_kernel<512, 1, ReduceOp<float>>", "reductions"),
        ("Memcpy DtoD (Device -> Device)", "copies, casts"),
        ("leeway::(anonymous namespace)::encode_ternary(float const*)", "averaging"),
        ("leeway::cuda::(anonymous namespace)::parts_kernel(leeway::cuda::PartSets)", "reductions"),
        ("leeway::cuda::(anonymous namespace)::column_sums_kernel(leeway::cuda::RowSets)",
         "reductions"),
        ("something new", "other"),
    ],
)  # fmt: skip
def test_kernel_classes(name, label):
    assert kernel_classes.class_of(name) == label


def test_a_trace_becomes_times_per_update():
    """Ten milliseconds, two updates: 4 of product, 3 of copy of which one overlaps, 4 idle."""
    events = [
        {"cat": "kernel", "name": "gemm", "ts": 0, "dur": 4000},
        {"cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 3000, "dur": 2000},
        {"cat": "gpu_memset", "name": "Memset", "ts": 6000},  # too short for the clock
        {"cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 9000, "dur": 1000},
        {"cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 9000},
        {"ph": "M", "name": "process_name"},
    ]
    kernels = kernel_classes.kernels_of(json.dumps({"traceEvents": events}))
    side = kernel_classes.summarize(kernels, seconds_per_update=0.005)
    assert side["classes"] == pytest.approx({
        "matrix products": 1.75, "copies, casts": 1.25, "idle": 2,
    })  # fmt: skip
    assert sum(side["classes"].values()) == pytest.approx(side["milliseconds_per_update"])
    table = kernel_classes.class_table({"ours": side, "compile": side})
    assert "| matrix products | 1.75 | 1.75 | +0.00 |" in table
    assert side["kernels_at_once"] == pytest.approx(7 / 6)
