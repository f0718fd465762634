"""The training losses of several runs as one SVG, each point the mean of some updates.

    python3 bench/gpu/curves.py --out docs/results/curves.svg NAME=RUN ... [--every 50]

RUN is a run folder, or a file with the lines of its events.jsonl that are updates.
"""

import argparse
import json
import pathlib
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 20, 50
COLORS = ["#1f5fbf", "#d1495b", "#2a9d5c", "#8a5cc2", "#e09f3e", "#4b5563"]


def losses_of(path):
    """(tokens, loss) of each update."""
    file = path / "events.jsonl" if path.is_dir() else path
    with open(file) as lines:
        events = [json.loads(line) for line in lines if '"event":"update"' in line]
    return [(event["tokens"], event["loss"]) for event in events]


def curve_of(losses, every):
    """Means of `every` updates, at the tokens of the last of them."""
    parts = [losses[end - every : end] for end in range(every, len(losses) + 1, every)]
    return [(part[-1][0], sum(loss for _, loss in part) / every) for part in parts]


def ticks(low, high, count=6):
    """Round numbers from low to high, about `count` of them."""
    step = next(
        size * 10**power
        for power in range(-3, 12)
        for size in (1, 2, 5)
        if (high - low) / (size * 10**power) <= count
    )
    first = -(-low // step)
    return [i * step for i in range(int(first), int(high // step) + 1)]


def drawn(curves):
    points = [point for curve in curves.values() for point in curve]
    most = max(tokens for tokens, _ in points)
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    margin = 0.04 * (high - low) or 1
    low, high = low - margin, high + margin

    def x(tokens):
        return LEFT + (WIDTH - LEFT - RIGHT) * tokens / most

    def y(loss):
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - loss) / (high - low)

    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">')  # fmt: skip
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    for loss in ticks(low, high):
        yield f'<path d="M{LEFT} {y(loss):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:g}</text>'
    for tokens in ticks(0, most):
        yield (f'<text x="{x(tokens):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">'
               f"{tokens / 1e6:g}</text>")  # fmt: skip
    yield (f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
           "million tokens</text>")  # fmt: skip
    yield f'<text x="14" y="{TOP + 10}">training loss</text>'
    for i, (name, curve) in enumerate(curves.items()):
        color = COLORS[i % len(COLORS)]
        path = "L".join(f"{x(tokens):.1f} {y(loss):.1f}" for tokens, loss in curve)
        yield f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="1.8"/>'
        line = TOP + 14 + 18 * i
        yield f'<path d="M{WIDTH - 250} {line - 4}h22" stroke="{color}" stroke-width="3"/>'
        yield f'<text x="{WIDTH - 222}" y="{line}">{escape(name)}</text>'
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--every", type=int, default=50, help="updates of a point")
    arguments = parser.parse_args()
    curves = {}
    for run in arguments.runs:
        name, found, path = run.partition("=")
        if not found:
            sys.exit(f"{run}: say NAME=RUN")
        try:
            curves[name] = curve_of(losses_of(pathlib.Path(path)), arguments.every)
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"{path}: not a run's events: {error}")
        if not curves[name]:
            sys.exit(f"{path}: has less than {arguments.every} updates; lower --every")
    arguments.out.write_text("\n".join(drawn(curves)) + "\n")


if __name__ == "__main__":
    main()
