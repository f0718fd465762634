"""Where the time of an update goes, by kernel class: ours, PyTorch eager and torch.compile under
the same profiler. (Not called profile.py: Python has a module of that name, which PyTorch imports.)

    profile_kernels.py ours compile [eager] [--recipe FILE] [--append FILE.md]

Each side runs in a process of its own; ours is the program as a shared library in it. Both train
until they are steady, then ten updates are recorded.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import kernel_classes
import ours

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
POLL_SECONDS = 0.002
START_SECONDS_MAX = 240  # until our first recorded update


def profiler(device):
    import torch
    from torch.profiler import ProfilerActivity, profile

    if device == "cuda":
        return profile(activities=[ProfilerActivity.CUDA])
    # Our workers are threads that Python has not made.
    everywhere = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    return profile(activities=[ProfilerActivity.CPU], experimental_config=everywhere)


def summary_of(recorded, device, seconds_per_update):
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "trace.json"
        recorded.export_chrome_trace(str(path))
        trace = path.read_text()
    categories = kernel_classes.DEVICE_CATEGORIES if device == "cuda" else {"cpu_op"}
    kernels = kernel_classes.kernels_of(trace, categories)
    return kernel_classes.summarize(kernels, seconds_per_update)


def profile_torch(mode, arguments):
    import torch_model

    recipe = torch_model.load_recipe(arguments.recipe, arguments.set)
    training = torch_model.Training(recipe, arguments.data, mode)
    for _ in range(arguments.steady):
        training.update()
    training.wait()
    with profiler(arguments.device):  # the first profiler loads its library
        training.update()
        training.wait()
    begin = time.perf_counter()
    for _ in range(arguments.updates):
        training.update()
    training.wait()
    plain = (time.perf_counter() - begin) / arguments.updates
    with profiler(arguments.device) as recorded:
        begin = time.perf_counter()
        for _ in range(arguments.updates):
            training.update()
        training.wait()
        seconds = (time.perf_counter() - begin) / arguments.updates
    return summary_of(recorded, arguments.device, seconds) | {"plain_milliseconds": 1000 * plain}


def wait_for(updates, count, run):
    deadline = time.monotonic() + START_SECONDS_MAX
    while updates.done < count:
        if not run.is_alive():
            raise RuntimeError(f"our run ended after {updates.done} updates")
        if time.monotonic() > deadline:
            raise RuntimeError(f"only {updates.done} updates after {START_SECONDS_MAX} s")
        time.sleep(POLL_SECONDS)
        updates.read()


def profile_ours(arguments):
    import torch  # first, so that our library finds its LibTorch loaded

    out = arguments.json.parent / "run"  # the parent process removes it
    words = ours.train_words(arguments.recipe, arguments.data, arguments.set, out)
    words = [b"leeway", *(word.encode() for word in words)]
    library = ctypes.CDLL(str(arguments.build / "bench" / "libleeway_main.so"))
    run = threading.Thread(
        target=library.leeway_main,
        args=(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None)),
        daemon=True,
    )
    if arguments.device == "cuda":
        torch.cuda.init()
    with profiler(arguments.device):  # the first profiler loads its library
        torch.zeros(1, device=arguments.device).add_(1)
    run.start()
    updates = ours.Updates(out)
    wait_for(updates, arguments.steady, run)
    begin = updates.done
    wait_for(updates, begin + arguments.updates, run)
    plain = ours.seconds_per_update(updates.events[begin - 1 :])
    recorded = profiler(arguments.device)
    recorded.start()
    begin = updates.done
    wait_for(updates, begin + arguments.updates, run)
    seconds = ours.seconds_per_update(updates.events[begin:])
    recorded.stop()
    return summary_of(recorded, arguments.device, seconds) | {"plain_milliseconds": 1000 * plain}


def report(sides):
    parts = [kernel_classes.class_table(sides), ""]
    for name, side in sides.items():
        parts.append(
            f"{name}: {side['milliseconds_per_update']:.2f} ms per update while recorded, "
            f"{side['plain_milliseconds']:.2f} before; {side['kernels_at_once']:.2f} kernels at a "
            "time, each with its part of it."
        )
    for name, side in sides.items():
        parts += ["", f"{name}, the longest kernels:", "", "```text"]
        parts += [*kernel_classes.kernel_lines(side), "```"]
        unknown = kernel_classes.kernel_lines(side, only=kernel_classes.OTHER)
        if unknown:
            parts += ["", f"{name}, kernels without a class:", "", "```text", *unknown, "```"]
    return "\n".join(parts)


def child(side):
    """The same words for one side, in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "side.json"
        words = [word for word in sys.argv[1:] if word not in ("ours", "eager", "compile")]
        program = [sys.executable, "-X", "faulthandler", __file__]
        done = subprocess.run([*program, side, *words, "--json", str(path)])
        if done.returncode != 0 or not path.exists():
            print(f"{side}: failed with status {done.returncode}", file=sys.stderr, flush=True)
            return None
        return json.loads(path.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sides", nargs="+", choices=["ours", "eager", "compile"])
    parser.add_argument("--recipe", default=str(HERE / "recipes" / "gpt2-163m.toml"))
    parser.add_argument("--data", default=str(REPOSITORY / "gpu-data"))
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steady", type=int, default=30, help="updates before")
    parser.add_argument("--updates", type=int, default=10, help="updates to record")
    parser.add_argument("--append", type=pathlib.Path, help="Markdown file to add the tables to")
    parser.add_argument("--json", type=pathlib.Path, help="file for one side, in place of tables")
    arguments = parser.parse_args()
    sets = ["run.updates=5000", f"run.device={arguments.device}", *arguments.set]
    arguments.set = list({change.split("=")[0]: change for change in sets}.values())
    if arguments.json is not None:
        side = arguments.sides[0]
        result = profile_ours(arguments) if side == "ours" else profile_torch(side, arguments)
        arguments.json.write_text(json.dumps(result))
        sys.stdout.flush()
        os._exit(0)  # our run still trains, and would save at its end
    sides = {side: child(side) for side in arguments.sides}
    sides = {side: result for side, result in sides.items() if result is not None}
    if not sides:
        sys.exit("no side could be recorded")
    text = report(sides)
    print(text)
    if arguments.append is not None:
        with open(arguments.append, "a") as file:
            file.write(f"\n## Profile, {pathlib.Path(arguments.recipe).stem}\n\n{text}\n")


if __name__ == "__main__":
    main()
