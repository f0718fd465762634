"""`make bench-gpu`: our speed on one GPU beside PyTorch's, in parts that append to one file.

    bench/gpu/run.py --part shapes --append out/gpu.md [--seconds 400] [--data gpu-data]

Ratios are taken within one part, on the same shape, data, batch, precision and clipping. A part
ends after --seconds at most; what did not fit is listed as such. --tiny --device cpu tries
everything but the speed.
"""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import time

import ours
import torch_model
from device_limits import DeviceMemory, copy_gigabytes_per_second, device_name, matrix_teraflops
from parts import PARTS, TINY_SETS

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
CURVE_POINTS = 8


def say(text):
    print(text, file=sys.stderr, flush=True)


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


class Runner:
    def __init__(self, arguments):
        self.arguments = arguments
        self.deadline = time.monotonic() + arguments.seconds
        self.warmup, self.window = (4, 4) if arguments.tiny else (30, 10)

    def sets(self, side):
        sets = {"run.device": self.arguments.device} | (TINY_SETS if self.arguments.tiny else {})
        if self.arguments.device == "cpu":
            sets["run.precision"] = "fp32"
        sets |= side.sets
        if self.arguments.tiny and side.sets.get("mesh.replicas") == 2:
            sets["data.batch"] = TINY_SETS["data.batch"] // 2
        return [f"{key}={value}" for key, value in sets.items()]

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def torch(self, side):
        command = [sys.executable, HERE / "torch_model.py", side.recipe_path, "--mode", side.torch,
                   "--data", self.arguments.data, "--warmup", self.warmup, "--window", self.window]
        command += [word for change in self.sets(side) for word in ("--set", change)]
        if self.arguments.tiny:
            command += ["--backend", "eager"]  # compiling for a CPU takes a minute
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                                  timeout=max(1, self.seconds_left()))  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RuntimeError("the time of this part was over") from None
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            raise RuntimeError(lines[-1])
        return json.loads(done.stdout.splitlines()[-1])

    def ours(self, side):
        return ours.train(
            self.arguments.build / "leeway", side.recipe_path, self.arguments.data,
            self.sets(side), warmup=self.warmup, window=self.window, seconds=self.seconds_left(),
        )  # fmt: skip

    def measure(self, side):
        """What was measured, or why it was not."""
        if self.seconds_left() < 5:
            return {"failed": "the time of this part was over"}
        say(f"{side.name} ...")
        begin = time.monotonic()
        try:
            with DeviceMemory(self.arguments.device) as memory:
                result = self.torch(side) if side.torch else self.ours(side)
        except (RuntimeError, OSError) as error:
            say(f"{side.name}: {error}")
            return {"failed": str(error)}
        result["device_bytes"] = memory.peak_bytes
        say(f"{side.name}: {result['tokens_per_second']:,.0f} tokens/s, loss "
            f"{result['losses'][-1]:.3f}, {time.monotonic() - begin:.0f} s")  # fmt: skip
        return result


def flops_per_token(recipe, vocabulary):
    """Of a forward and a backward: six for every weight of a product, and causal attention."""
    shape = recipe["model"]
    width, up = shape["width"], 3 if shape["activation"] == "swiglu" else 2
    block = 4 * width * width + up * width * shape["hidden"] + shape["context"] * width
    return 6 * (shape["layers"] * block + width * vocabulary)


def speed_rows(part, results, runner, peak):
    windows = torch_model.TokenWindows(runner.arguments.data / "train.tokens", 1, 1, 1)
    for side in part.sides:
        result = results.get(side.name, {"failed": "it was not reached"})
        if "failed" in result:
            yield (side.name, "-", "-", "-", "-", "-", result["failed"].replace("|", "/")[:160])
            continue
        recipe = torch_model.load_recipe(side.recipe_path, runner.sets(side))
        speed, losses = result["tokens_per_second"], result["losses"]
        windows_speed = result["window_tokens_per_second"]
        share = speed * flops_per_token(recipe, windows.vocabulary) / (peak * 1e12)
        spread = " ".join(f"{speed / 1000:.0f}" for speed in windows_speed)
        memory = f"{result['device_bytes'] / 1e9:.1f}" if result["device_bytes"] else "-"
        yield (side.name, f"{speed:,.0f}", spread, f"{share:.1%}", memory,
               f"{result['first_update_seconds']:.1f}", f"{losses[0]:.3f} to {losses[-1]:.3f}")


def ratio_rows(part, results):
    for ratio in part.ratios:
        pair = [results.get(name, {}).get("tokens_per_second") for name in ratio.names]
        text = f"{pair[0] / pair[1]:.3f}" if None not in pair else "-"
        yield (ratio.names[0], ratio.names[1], text, ratio.least, ratio.aim)


def curve_rows(part, results):
    """Losses of all sides, each the mean of the updates since the line before."""
    losses = {name: result["losses"] for name, result in results.items() if "losses" in result}
    names = [side.name for side in part.sides if side.name in losses]
    length = max((len(values) for values in losses.values()), default=0)
    step = max(1, length // CURVE_POINTS)
    for end in range(step, length + 1, step):
        means = [losses[name][end - step : end] for name in names]
        yield (end, *(f"{sum(m) / len(m):.4f}" if len(m) == step else "-" for m in means))


def training_text(part, results, runner, peak):
    heads = ("run", "tokens/s", "windows, 1000/s", "share of matrix peak", "device GB",
             "first update s", "loss, first to last")  # fmt: skip
    lines = table(heads, speed_rows(part, results, runner, peak))
    if part.ratios:
        heads = ("ratio of", "to", "ratio", "at least", "aim")
        lines += ["", *table(heads, ratio_rows(part, results))]
    names = [side.name for side in part.sides if "losses" in results.get(side.name, {})]
    lines += ["", "Training loss, mean of the updates since the line before:", ""]
    return lines + table(("update", *names), curve_rows(part, results))


def kernel_text(runner, peak):
    device, tiny = runner.arguments.device, runner.arguments.tiny
    copy = copy_gigabytes_per_second(device, tiny)
    lines = table(("limit of the device", "measured"), [
        ("bf16 product of 8192 x 8192 x 8192", f"{peak:,.0f} TFLOP/s"),
        ("copy of 2 GiB, read and written", f"{copy:,.0f} GB/s"),
    ])  # fmt: skip
    program = runner.arguments.build / "bench" / "gpu_kernels_bench"
    if not program.exists():
        return lines
    done = subprocess.run([program], capture_output=True, text=True,
                          timeout=max(1, runner.seconds_left()))  # fmt: skip
    lines += ["", "```text", *(done.stdout + done.stderr).splitlines(), "```"]
    if done.returncode != 0:
        lines.append(f"\nIt failed with status {done.returncode}.")
    return lines


def append(path, text):
    print(text, flush=True)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as file:
            file.write(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=[*PARTS, "kernels"], required=True)
    parser.add_argument("--only", default="", metavar="TEXT", help="the sides that are called so")
    parser.add_argument("--append", type=pathlib.Path, help="Markdown file to add the part to")
    parser.add_argument("--seconds", type=float, default=400, help="time for the part")
    parser.add_argument("--data", type=pathlib.Path, default=REPOSITORY / "gpu-data")
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a shape for a second on a CPU")
    arguments = parser.parse_args()
    if arguments.only and arguments.part == "kernels":
        parser.error("--only is for parts that train")
    arguments.build = arguments.build.resolve()
    if not (arguments.data / "train.tokens").exists():
        sys.exit(f"{arguments.data} has no train.tokens; docs/results/gpu.md says how to make it")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is done is written
    runner = Runner(arguments)
    begin = time.monotonic()
    peak = matrix_teraflops(arguments.device, arguments.tiny)
    title = f"\n## {arguments.part}, {device_name(arguments.device)}\n"
    if arguments.part == "kernels":
        append(arguments.append, "\n".join([title, *kernel_text(runner, peak)]))
        return
    part, results = PARTS[arguments.part].only(arguments.only), {}
    if not part.sides:
        sys.exit(f"no side of {arguments.part} has {arguments.only!r} in its name")
    try:
        for side in part.sides:
            results[side.name] = runner.measure(side)
    finally:
        lines = [title, *training_text(part, results, runner, peak), ""]
        lines.append(f"Matrix peak {peak:,.0f} TFLOP/s; {time.monotonic() - begin:.0f} s in all.")
        append(arguments.append, "\n".join(lines))
    if any("failed" in result for result in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
