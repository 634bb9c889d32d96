"""When several machines pay: speed over the number of machines from the compute of one and the speed of links.

python packaging/cluster_model.py FOLDER       writes cluster-small-light.svg and its like, prints the table of the documentation
python packaging/cluster_model.py --measure    measures what `SMALL` says of this machine

A pass over n rows takes, by tensors over N machines,

    t(N) = split * t(1) / N + (1 - split) * t(1) + (sums + 1) * c(N),

where `split` is the share of the work in the layers that are divided (the output head is not). For each layer, two sums of n rows
of hidden values are needed, and one exchange for the order. A sum of S bytes takes 2 (N - 1) (latency + S / (N bandwidth)) on a
ring, and latency + (N - 1) S / bandwidth where every machine is linked to every other. A round of gamma proposals takes gamma
draft steps on one machine and a pass over gamma + 1 rows, and gives tau tokens.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from engine.exports.svg import DARK, LIGHT, Drawing, Palette
from engine.exports.svg_charts import draw
from engine.lens.chart_spec import Axis, ChartSpec, Key, Line, Panel

MACHINES = (1, 2, 4, 8)
GAMMA = 4
ALPHA = 0.7
"""Acceptance rate of each proposal, independent of the others, as a good pair has."""


@dataclass(frozen=True)
class Target:
    """Costs of a target and its draft model on one machine. Times in seconds.

    Attributes:
        one, five: time of a pass over 1 row, and over 5. step: time of a draft step.
        split: share of the work that is divided among machines.
        layers: number of layers. row_bytes: bytes of one row of hidden states.
    """

    name: str
    title: str
    one: float
    five: float
    step: float
    split: float
    layers: int
    row_bytes: int


@dataclass(frozen=True)
class Link:
    """A link between machines, as its maker states it.

    Attributes:
        bandwidth: bytes per second. latency: seconds from one machine's memory to the other's.
        all_linked: whether every machine is linked to every other, so that a sum takes one step.
    """

    name: str
    bandwidth: float
    latency: float
    all_linked: bool = False


SMALL = Target("small", "The built-in target, 135M, on one core of a CPU", 0.158, 0.171, 0.011, 0.79, 30, 576 * 4)
LARGE = Target(
    "large", "A 70B target in 4 bits, at 819 GB/s", 40e9 / 819e9, 1.1 * 40e9 / 819e9, 0.7e9 / 819e9, 0.98, 80, 8192 * 2
)
"""Estimated, not measured: bytes of weights divided by the memory bandwidth that Apple states for an M3 Ultra; five rows are
assumed to take a tenth longer."""
LINKS = (
    Link("1 Gbit Ethernet", 0.125e9, 200e-6),
    Link("Thunderbolt, TCP", 5e9, 300e-6),
    Link("Thunderbolt 5, RDMA", 8e9, 20e-6, all_linked=True),
)
ROLES = dict(zip((link.name for link in LINKS), ("rejected", "accepted", "accent"), strict=True))
"""Roles of the palette that give the links their colours."""


def sum_time(link: Link, machines: int, size: float) -> float:
    """Returns the seconds of an all-reduce of `size` bytes over all machines."""
    if machines == 1:
        return 0.0
    if link.all_linked:
        return link.latency + (machines - 1) * size / link.bandwidth
    return 2 * (machines - 1) * (link.latency + size / (machines * link.bandwidth))


def pass_time(target: Target, link: Link, machines: int, rows: int) -> float:
    """Returns the seconds of a pass over 1 or `GAMMA` + 1 rows."""
    alone = target.one if rows == 1 else target.five
    computed = target.split * alone / machines + (1 - target.split) * alone
    return computed + (2 * target.layers + 1) * sum_time(link, machines, rows * target.row_bytes)


def speed(target: Target, link: Link, machines: int, speculates: bool) -> float:
    """Returns the tokens per second."""
    if not speculates:
        return 1 / pass_time(target, link, machines, 1)
    tau = (1 - ALPHA ** (GAMMA + 1)) / (1 - ALPHA)
    return tau / (GAMMA * target.step + pass_time(target, link, machines, GAMMA + 1))


def table() -> str:
    """Returns a Markdown table of the speed relative to one machine without speculation."""
    head = "".join(f" {count} machines |" for count in MACHINES).replace(" 1 machines", " 1 machine")
    rows = [f"| target | link | decoding |{head}", "|---" * (3 + len(MACHINES)) + "|"]
    for target in (SMALL, LARGE):
        for link in LINKS:
            for speculates in (False, True):
                single = speed(target, link, 1, False)
                cells = "".join(f" {speed(target, link, count, speculates) / single:.2f} |" for count in MACHINES)
                rows.append(f"| {target.title} | {link.name} | {'speculative' if speculates else 'plain'} |{cells}")
    return "\n".join(rows)


def chart(target: Target, palette: Palette) -> Drawing:
    """Draws the speed over the number of machines: solid without speculation, dashed with it, one colour for each link."""
    speeds = {
        (link, speculates): [speed(target, link, count, speculates) / speed(target, link, 1, False) for count in MACHINES]
        for link in LINKS
        for speculates in (False, True)
    }
    words = "; ".join(
        f"{link.name}{', speculative' if speculates else ''}: {', '.join(f'{value:.1f}' for value in values)}"
        for (link, speculates), values in speeds.items()
    )
    top = 1.1 * max(max(values) for values in speeds.values())
    title = f"Speed relative to one machine without speculation, on 1, 2, 4 and 8 machines. {words}."
    lines = tuple(
        Line(np.array(MACHINES), np.array(values), ROLES[link.name], "dash" if speculates else "line", width=2)
        for (link, speculates), values in speeds.items()
    )
    legend = tuple(Key(ROLES[link.name], "line", link.name) for link in LINKS)
    spec = ChartSpec(Axis(0.8, 8.2), (Panel(Axis(0, top), lines),), title, (legend,))
    return draw(f"cluster-{target.name}", spec, palette, across="machines")


def measure() -> str:
    """Measures the passes of the built-in target and the steps of its draft model here; returns the shortest of 100 each."""
    import mlx.core as mx

    from engine.models.loading import load
    from engine.target.prompt_cache import make_prompt_cache, trim_to

    times: dict[str, float] = {}
    for name, rows in (("builtin", (1, GAMMA + 1)), ("builtin-draft", (1,))):
        model = load(name).model
        cache = make_prompt_cache(model)
        mx.eval(model(mx.array([list(range(5, 69))]), cache=cache))
        for count in rows:
            shortest = float("inf")
            for _ in range(100):
                began = time.perf_counter()
                mx.eval(model(mx.array([[7] * count]), cache=cache))
                shortest = min(shortest, time.perf_counter() - began)
                trim_to(cache, 64, "target")
            times[f"{name}, {count} rows"] = shortest
    return ", ".join(f"{name}: {1e3 * seconds:.1f} ms" for name, seconds in times.items())


def main() -> None:
    """Writes the charts and prints the table, or measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder for the charts")
    parser.add_argument("--measure", action="store_true", help="measure the built-in target on this machine instead")
    arguments = parser.parse_args()
    if arguments.measure:
        print(measure())
        return
    for target in (SMALL, LARGE):
        for theme, palette in (("light", LIGHT), ("dark", DARK)):
            if arguments.folder is not None:
                picture = chart(target, palette).document(target.title, "times one machine", ("dashed: with speculation",))
                (arguments.folder / f"cluster-{target.name}-{theme}.svg").write_text(picture, encoding="utf-8")
    print(table())


if __name__ == "__main__":
    main()
