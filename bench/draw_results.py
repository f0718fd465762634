"""The pictures of docs/results: numbers of its tables, drawn as SVG that follows light and dark.

    bench/draw_results.py                     from docs/results/pictures.json
    bench/draw_results.py --homes out/homes   also the curves of a comparison (leeway compare)
"""
import argparse
import html
import json
import math
import pathlib
import statistics

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "docs/results"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 64, 24, 44, 48
COLORS = ["#3b6fb6", "#c4572e", "#3d8b53", "#8a5bb0", "#a8841f", "#2f8f9d", "#b0426f"]
STYLE = """<style>
text { font: 12px sans-serif; fill: #444 } .title { font-size: 15px; font-weight: bold }
.axis { stroke: #999 } .grid { stroke: #8884; stroke-width: 0.5 }
@media (prefers-color-scheme: dark) { text { fill: #ccc } }
</style>"""


def text(x, y, words, anchor="start", kind=""):
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"'
    return f"<text {place}>{html.escape(words)}</text>"


def dot(x, y, color):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{color}"/>'


def bar(x, y, width, height, color):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{color}"/>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def picture(title, parts, height=HEIGHT):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    body = [head, STYLE, text(LEFT, 24, title, kind="title"), *parts, "</svg>"]
    return "\n".join(body) + "\n"


def scale(low, high, begin, end, log=False):
    place = math.log10 if log else float
    low, high = place(low), place(high)
    return lambda value: begin + (place(value) - low) / (high - low) * (end - begin)


def ticks(low, high, count=6):
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= count)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def axes(x, y, x_ticks, y_ticks, x_name, y_name):
    bottom = HEIGHT - BOTTOM
    parts = [line(LEFT, bottom, WIDTH - RIGHT, bottom, "axis")]
    parts.append(line(LEFT, TOP, LEFT, bottom, "axis"))
    parts += [text(x(v), bottom + 16, f"{v:g}", "middle") for v in x_ticks]
    parts += [text(LEFT - 6, y(v) + 4, f"{v:g}", "end") for v in y_ticks]
    parts += [line(LEFT, y(v), WIDTH - RIGHT, y(v), "grid") for v in y_ticks]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_name, "middle"))
    return [*parts, text(LEFT, TOP - 6, y_name)]


def scatter(data):
    points = data["points"]
    shares = [point["share"] for point in points]
    losses = [point["loss"] for point in points]
    x = scale(min(shares) / 1.5, max(shares) * 1.5, LEFT, WIDTH - RIGHT, log=True)
    y = scale(min(losses) - 0.02, max(losses) + 0.02, HEIGHT - BOTTOM, TOP)
    wanted = [v for v in (0.25, 1, 5, 25, 100) if min(shares) <= v <= max(shares)]
    parts = axes(x, y, wanted, ticks(min(losses), max(losses)), data["x"], data["y"])
    groups = list(dict.fromkeys(point["group"] for point in points))
    for point in points:
        color = COLORS[groups.index(point["group"])]
        at = x(point["share"]), y(point["loss"])
        parts.append(dot(*at, color))
        side = -9 if point.get("left") else 9
        parts.append(text(at[0] + side, at[1] + 4, point["name"], "end" if side < 0 else "start"))
    for i, group in enumerate(groups):
        parts.append(dot(WIDTH - 200, TOP + 6 + 18 * i, COLORS[i]))
        parts.append(text(WIDTH - 190, TOP + 10 + 18 * i, group))
    return picture(data["title"], parts)


def bars(data, shown="{:.4f}", log=False):
    rows, begin = data["rows"], 300
    high = max(max(row["values"]) for row in rows)
    x = scale(data["from"], high * 1.01, begin, WIDTH - 90, log)
    parts = []
    for i, row in enumerate(rows):
        values, top = row["values"], TOP + 30 * i
        mean = statistics.mean(values)
        parts.append(text(begin - 8, top + 15, row["name"], "end"))
        parts.append(bar(begin, top, max(0, x(mean) - begin), 20, COLORS[row.get("color", 0)]))
        parts.append(line(x(min(values)), top + 10, x(max(values)), top + 10, "axis"))
        parts.append(text(x(max(values)) + 6, top + 15, shown.format(mean)))
    return picture(data["title"], parts, TOP + 30 * len(rows) + 12)


def curves(title, series, x_name, y_name, top):
    y_low = min(loss for points in series.values() for _, loss in points) - 0.05
    x_high = max(seconds for points in series.values() for seconds, _ in points)
    x = scale(0, x_high, LEFT, WIDTH - RIGHT)
    y = scale(y_low, top, HEIGHT - BOTTOM, TOP)
    parts = axes(x, y, ticks(0, x_high), ticks(y_low, top), x_name, y_name)
    for i, (name, points) in enumerate(series.items()):
        shown = " ".join(f"{x(s):.1f},{y(loss):.1f}" for s, loss in points if loss <= top)
        stroke = f'fill="none" stroke="{COLORS[i]}" stroke-width="2"'
        parts.append(f'<polyline points="{shown}" {stroke}/>')
        parts.append(bar(WIDTH - 220, TOP + 18 * i, 14, 4, COLORS[i]))
        parts.append(text(WIDTH - 200, TOP + 7 + 18 * i, name))
    return picture(title, parts)


def evaluations(run):
    """Seconds of the simulator and validation loss of one run folder."""
    points = []
    for row in (run / "events.jsonl").read_text().splitlines():
        if '"event":"evaluated"' in row:
            event = json.loads(row)
            points.append((event["seconds"], event["valid_loss"]))
    return points


def mean_of(seeds):
    """Over the seeds; simulated times are the same for all of them."""
    means = []
    for points in zip(*seeds, strict=True):
        means.append([statistics.mean(column) for column in zip(*points)])
    return means


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--homes", type=pathlib.Path, help="folder of recipes/compare/homes.toml")
    arguments = parser.parse_args()
    stored = RESULTS / "pictures.json"
    data = json.loads(stored.read_text())
    if arguments.homes:
        series = {}
        for run in json.loads((arguments.homes / "results.json").read_text())["runs"]:
            points = evaluations(arguments.homes / run["folder"])
            series.setdefault(run["variant"], []).append(points)
        data["homes"]["series"] = {name: mean_of(seeds) for name, seeds in series.items()}
        stored.write_text(json.dumps(data, indent=1) + "\n")
    homes = data["homes"]
    pictures = {
        "traffic.svg": scatter(data["traffic"]),
        "mesh.svg": bars(data["mesh"]),
        "scenarios.svg": bars(data["scenarios"], "{:.1f}x", log=True),
        "homes.svg": curves(homes["title"], homes["series"], homes["x"], homes["y"], homes["top"]),
    }
    for name, svg in pictures.items():
        (RESULTS / name).write_text(svg)
        print(f"wrote {RESULTS / name}")


if __name__ == "__main__":
    main()
