"""Kernels of a GPU trace by class, and the time of each class per update."""

import collections
import json
import re

# The first pattern that is found in a kernel's name decides. Templates of other libraries are in
# many names (attention kernels name cutlass types), so the order matters. torch.compile's names
# list what was fused.
CLASSES = [
    ("copies, casts", r"^mem(cpy|set)|^triton_poi_fused_(_to_copy|clone|t|view|transpose|_)+\d*$"),
    ("elementwise", r"^triton_poi.*attention"),
    ("attention", r"flash|fmha|sdpa|attention|\bmha"),
    ("norm", r"norm(forward|backward)pointers"),
    ("elementwise", r"activationpointers|headpointers"),
    ("reductions", r"partsets|rowsets"),
    ("optimizer", r"leeway.*(passpointers|normpointers|gate_kernel|sum_kernel)"),
    ("optimizer", r"adam|multi_tensor_apply|lp_?norm|foreach|newton|muon|(^|\W)update_|clip"),
    ("averaging", r"leeway.*(gather|scatter|encode|decode|ternary|int8|subset|merge)"),
    ("averaging", r"leeway.*(meanparts|finite)"),
    ("matrix products", r"gemm|nvjet|cublas|cutlass|xmma|splitk|gemv|triton_tem|matmul|wgmma"
     r"|aten::(add|b|)mm"),
    ("softmax, loss", r"soft_?max|nll_loss|cross_entropy|logsumexp|_loss"),
    ("norm", r"layer_?norm|rms_?norm|gammabeta|rowwisemoments|var_mean|norm_(forward|backward)"),
    ("embedding, indexing", r"embedding|index|krn_partial|compute_grad_weight|sort|gather|scatter"),
    ("copies, casts", r"copy|catarray|fillfunctor|fill_|convert|\bcast"),
    ("reductions", r"reduce|triton_red|triton_per|bias_sum|column_sum|sum_"),
    ("elementwise", r"elementwise|triton_poi|gelu|silu|swiglu|relu|rotate|rope|threshold|aten::"),
]  # fmt: skip
OTHER = "other"
IDLE = "idle"
ORDER = ["matrix products", "attention", "softmax, loss", "norm", "elementwise", "reductions",
         "embedding, indexing", "optimizer", "averaging", "copies, casts", OTHER, IDLE]  # fmt: skip
DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}


def class_of(name):
    lower = name.lower()
    for label, pattern in CLASSES:
        if re.search(pattern, lower):
            return label
    return OTHER


def kernels_of(trace, categories=DEVICE_CATEGORIES):
    """(name, begin, duration), in microseconds, of what a chrome trace says ran on the device."""
    return [
        (event["name"], event["ts"], event.get("dur", 0))
        for event in json.loads(trace)["traceEvents"]
        if event.get("cat") in categories
    ]


def shared_times(kernels):
    """For each kernel its time, of which it has an equal part where several run at once; so the sum
    is the time in which at least one ran."""
    ends = []
    for i, (_, begin, duration) in enumerate(kernels):
        if begin + duration > begin:  # else its end would come before its begin
            ends += [(begin, True, i), (begin + duration, False, i)]
    times, running, last = [0.0] * len(kernels), set(), 0
    for now, begins, i in sorted(ends):
        for other in running:
            times[other] += (now - last) / len(running)
        last = now
        (running.add if begins else running.discard)(i)
    return times


def summarize(kernels, seconds_per_update):
    """Milliseconds per update of every class and kernel, from the shares of the time between the
    first kernel and the end of the last."""
    if not kernels:
        raise RuntimeError("the trace has no kernels")
    begin = min(kernel[1] for kernel in kernels)
    end = max(kernel[1] + kernel[2] for kernel in kernels)
    scale = 1000 * seconds_per_update / (end - begin)
    classes, names, calls = collections.Counter(), collections.Counter(), collections.Counter()
    for (name, _, _), time in zip(kernels, shared_times(kernels), strict=True):
        classes[class_of(name)] += time * scale
        names[name] += time * scale
        calls[name] += 1
    updates = (end - begin) * 1e-6 / seconds_per_update
    busy = sum(classes.values())
    classes[IDLE] = 1000 * seconds_per_update - busy
    return {
        "milliseconds_per_update": 1000 * seconds_per_update,
        "kernels_at_once": scale * sum(duration for _, _, duration in kernels) / busy,
        "classes": dict(classes),
        "kernels": [
            {"name": name, "class": class_of(name), "milliseconds": time,
             "calls": calls[name] / updates}
            for name, time in names.most_common()
        ],
    }  # fmt: skip


def class_table(sides):
    """One row for each class; with several sides, the gap of the first to each of the others."""
    names = list(sides)
    gaps = names[1:]
    heads = ["ms per update", *names, *(f"{names[0]} - {other}" for other in gaps)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    used = [label for label in ORDER if any(label in side["classes"] for side in sides.values())]
    rows = [(label, [side["classes"].get(label, 0) for side in sides.values()]) for label in used]
    rows.append(("all", [side["milliseconds_per_update"] for side in sides.values()]))
    for label, times in rows:
        cells = [f"{time:.2f}" for time in times] + [f"{times[0] - t:+.2f}" for t in times[1:]]
        lines.append("| " + " | ".join([label, *cells]) + " |")
    return "\n".join(lines)


def kernel_lines(side, count=30, only=None):
    """The longest kernels, or those of one class."""
    chosen = [kernel for kernel in side["kernels"] if only in (None, kernel["class"])]
    return [
        f"{kernel['milliseconds']:9.3f} ms {kernel['calls']:7.1f} x  {kernel['class']:16}"
        f"{kernel['name'][:110]}"
        for kernel in chosen[:count]
    ]
