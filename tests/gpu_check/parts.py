"""The parts of `make gpu-check`. Each takes its time limit and returns tables; `python -m tests.gpu_check.parts NAME` runs one.

A part runs in a process of its own: what a driver or a kernel does wrong often ends the process, and may not end the others.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.machine import provenance
from engine.machine.mlx_import import require_device
from engine.values.drafter_kinds import DRAFTERS, HEAD, NGRAM, NO_DRAFTER

REPOSITORY = Path(__file__).parents[2]
SHIPPED = tuple(DRAFTERS)
QUICK = (NO_DRAFTER, NGRAM, HEAD)
"""Drafters of a quick run."""
VOCABULARIES = (49_152, 151_936)
PASS_MILLISECONDS = 5.0
GAMMA = 4
MOST_ROWS = 32
CONTEXT = 200
"""Tokens before the rows whose cost is measured."""


@dataclass(frozen=True)
class Table:
    """Figures.

    Attributes:
        heads: of the columns; the first `words` ones hold words.
        line: columns that are drawn as curves over the first one, by name.
        bars: the column that is drawn as bars, named by the columns of words; empty if none.
    """

    title: str
    heads: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    note: str = ""
    words: int = 1
    line: tuple[str, ...] = ()
    bars: str = ""


@dataclass(frozen=True)
class Result:
    """Findings of a part. `passed`: everything is right that can be right or wrong; `skipped`: nothing could be checked."""

    passed: bool
    summary: str
    tables: list[Table] = field(default_factory=list)
    skipped: bool = False
    details: str = ""


class Budget:
    """The time of a part, in seconds, and whether it only shows that it runs (`quick`)."""

    def __init__(self, seconds: float, quick: bool = False) -> None:
        self.seconds, self.quick = seconds, quick
        self._end = time.monotonic() + seconds

    @property
    def drafters(self) -> tuple[str, ...]:
        """Names of the drafters that are checked."""
        return QUICK if self.quick else SHIPPED

    def turns(self, most: int, share: float = 1.0) -> Iterator[int]:
        """Yields 0 in any case, then 1, … below `most` while another turn of mean length ends within `share` of the time left."""
        began = time.monotonic()
        end = began + share * (self._end - began)
        for turn in range(1 if self.quick else most):
            now = time.monotonic()
            if turn and now + (now - began) / turn > end:
                return
            yield turn


def describe_device() -> dict[str, Any]:
    """Returns the back-end of MLX, the device with its memory, driver and capability, the machine, versions and the commit."""
    import mlx.core as mx

    from engine.machine import device

    backend = {"cpu": "CPU", "metal": "Metal", "cuda": "CUDA"}[device.kind()]
    told = {name: value for name, value in mx.device_info().items() if isinstance(value, str | int | float)}
    installed = {each.name: each.version for each in importlib.metadata.distributions() if each.name.startswith("mlx-")}
    return {
        "backend": backend,
        "gpu": _on_gpu(),
        "name": device.device().name,
        "mlx": told,
        "driver": _nvidia_driver() if backend == "CUDA" else {},
        "hardware": provenance.hardware(),
        "versions": {**provenance.versions(), **installed},
        "commit": commit(),
    }


def commit() -> str:
    """Returns the commit of the checkout, with a plus sign if files differ from it; without a checkout, the file COMMIT."""
    try:
        git = ["git", "-C", str(REPOSITORY)]
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
        return head + "+" * bool(changed)
    except (OSError, subprocess.SubprocessError):
        file = REPOSITORY / "COMMIT"
        return file.read_text(encoding="utf-8").strip() if file.is_file() else "unknown"


def _nvidia_driver() -> dict[str, str]:
    """Name, driver, memory and compute capability as nvidia-smi says them; empty where there is none."""
    fields = ("name", "driver_version", "memory.total", "compute_cap")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return {}
    return dict(zip(fields, (value.strip() for value in told.split(",")), strict=False))


def _on_gpu() -> bool:
    from engine.machine import device

    return device.kind() != "cpu"


def device_tests(budget: Budget) -> Result:
    """Runs the tests marked gpu or metal. Tests of another kind of GPU are skipped by themselves."""
    marked = re.compile(r"mark\.(gpu|metal)\b")
    files = [
        path for path in sorted((REPOSITORY / "tests").rglob("test_*.py")) if marked.search(path.read_text(encoding="utf-8"))
    ]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "(gpu or metal) and not full", "-p", "no:cacheprovider"]
        command += ["--tb=short", f"--junit-xml={report}", *(str(path.relative_to(REPOSITORY)) for path in files)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        cases = list(ElementTree.parse(report).iter("testcase")) if report.is_file() else []
    outcomes = [(case, _outcome(case)) for case in cases]
    counts = Counter(outcome for _, outcome in outcomes)
    failed = [(_name(case), _first_lines(case)) for case, outcome in outcomes if outcome == "failed"]
    ran = counts["passed"] + counts["failed"]
    words = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    broken = done.returncode not in (0, 5)  # 5: there were no tests
    if not broken and not ran:
        return Result(not _on_gpu(), f"No test ran, {counts['skipped']} were skipped.", skipped=not _on_gpu())
    tables = [Table("Tests that failed", ("test", "reason"), failed, words=2)] if failed else []
    return Result(not broken, words + ".", tables, details=done.stdout[-4000:] + done.stderr[-2000:] if broken else "")


def _outcome(case: ElementTree.Element) -> str:
    children = {child.tag for child in case}
    return "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '')}: {case.get('name', '')}"


def _first_lines(case: ElementTree.Element) -> str:
    return next((str(child.get("message", ""))[:300] for child in case if child.tag in ("failure", "error")), "")


def greedy_text(budget: Budget, target: Any = None) -> Result:
    """Compares answers of temperature 0 with mlx-lm's, for each drafter. A difference counts as a fault unless both texts are the
    model's own choice but for last bits: no token of either scores less than the best by more (`engine.rounds.near_ties`)."""
    import mlx.core as mx
    from mlx_lm.generate import generate_step
    from mlx_lm.sample_utils import make_sampler

    from engine.models.loading import load
    from engine.types import RULES, DecodingOptions
    from tests.exactness import compare, gaps, prompt_tokens, read_prompts

    target = target or load("builtin")
    tokens = 5 if budget.quick else 96 if _on_gpu() else 24
    prompts = read_prompts()
    counts: dict[str, Counter[str]] = {name: Counter() for name in budget.drafters}
    different: list[tuple[Any, ...]] = []
    for index in budget.turns(len(prompts), share=0.9):
        prompt = prompts[index]
        ids = prompt_tokens(target, prompt)
        steps = generate_step(mx.array(ids), target.model, max_tokens=tokens, sampler=make_sampler(0.0))
        expected = [int(token) for token, _ in steps]
        options = DecodingOptions(temperature=0, max_tokens=tokens)
        settings = [(name, RULES[index % len(RULES)], GAMMA) for name in budget.drafters]
        for found in compare(target, [(index, prompt)], tokens, settings, temperature=0):
            own = [token.id for current in found.rounds for token in current.emitted]
            kind = "equal"
            if own != expected:
                explained = found.explained and float(gaps(target, ids, expected, options).max()) < found.near
                kind = "near-tie" if explained else "different"
            counts[found.drafter][kind] += 1
            if kind != "equal":
                at = next((place for place, pair in enumerate(zip(own, expected, strict=False)) if pair[0] != pair[1]), -1)
                different.append((found.prompt, found.drafter, found.rule, kind, at, round(found.gap, 5), found.near))
    rows = [(name, of.total(), of["equal"], of["near-tie"], of["different"]) for name, of in counts.items()]
    total, equal, wrong = (sum(row[column] for row in rows) for column in (1, 2, 4))
    tables = [Table(f"Answers of {tokens} tokens", ("drafter", "answers", "equal", "near-tie", "different"), rows)]
    if different:
        heads = ("prompt", "drafter", "rule", "kind", "first different token", "gap of logits", "near-tie below")
        tables.append(Table("Answers that are not equal", heads, different, words=4))
    return Result(not wrong, f"{equal} of {total} answers equal mlx-lm's; {wrong} differ otherwise than at near-ties.", tables)


def prove(budget: Budget) -> Result:
    """Runs `draftlight prove --quick` on the built-in target with its head."""
    document = _json_of("prove", "--quick", "--seed", "1")
    checks = document["checks"]
    rows = [
        (
            check["name"],
            check["rule"],
            check["setting"],
            check["samples"],
            check["p_value"],
            "passed" if check["passed"] else "FAILED",
        )
        for check in checks
    ]
    right = sum(check["passed"] for check in checks)
    heads = ("check", "rule", "at", "sample", "p-value", "verdict")
    return Result(document["passed"], f"{right} of {len(checks)} checks passed.", [Table("Checks", heads, rows, words=3)])


def _json_of(command: str, *options: str) -> dict[str, Any]:
    """Returns the JSON document that a command of Draftlight writes. Raises RuntimeError with its last lines without one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out.json"
        words = [sys.executable, "-m", "app", command, *options, "--json", str(path)]
        done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True)
        if not path.is_file():
            raise RuntimeError(f"draftlight {command} ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


def device_waits(budget: Budget, target: Any = None) -> Result:
    """Counts how often the host waits for the device in a round. Once at a fixed gamma; under an automatic gamma or drafter,
    which looks at what was drawn, at most once more for each drawn token. On the CPU back-end the graph is kept lazy as on a GPU.
    """
    from engine.models.loading import load
    from engine.types import DecodingOptions
    from tests.exactness import make_drafter, prompt_tokens, read_prompts
    from tests.lazy_graph import as_on_a_gpu
    from tests.synchronisations import rounds_and_waits

    target = target or load("builtin")
    ids = prompt_tokens(target, read_prompts()[0])
    rows: list[tuple[Any, ...]] = []
    with nullcontext() if _on_gpu() else as_on_a_gpu():
        for name in budget.drafters:
            drafter = make_drafter(name, target)
            for gamma in (GAMMA, "auto"):
                options = DecodingOptions(gamma=gamma, seed=1, max_tokens=8 if budget.quick else 16, phase_every=0)
                found = rounds_and_waits(target, ids, drafter, options, eos_ids=())
                drawn = [sum(not proposal.copied for proposal in current.proposals) for current, _ in found]
                most = [1 + (steps if "auto" in (name, gamma) else 0) for steps in drawn]
                waits = [count for _, count in found]
                right = all(1 <= count <= limit for count, limit in zip(waits, most, strict=True))
                mean = round(statistics.mean(waits), 2) if waits else None
                rows.append((name, str(gamma), len(waits), mean, max(waits, default=0), "as it should" if right else "TOO OFTEN"))
    wrong = sum(row[-1] == "TOO OFTEN" for row in rows)
    heads = ("drafter", "gamma", "rounds", "waits a round", "most", "verdict")
    note = "The first round, which pays for what happens once, and the last are left out."
    summary = f"{len(rows) - wrong} of {len(rows)} settings wait as seldom as they should."
    return Result(not wrong, summary, [Table("Waits for the device", heads, rows, note, words=2)])


def cost_of_rows(budget: Budget, target: Any = None) -> Result:
    """Times passes of the target over 1 to 32 rows, each until its logits are there, in turns."""
    import mlx.core as mx

    from engine.models.loading import load
    from engine.target.prompt_cache import make_prompt_cache, trim_to
    from tests.exactness import prompt_tokens, read_prompts

    target = target or load("builtin")
    most_rows = 4 if budget.quick else MOST_ROWS
    ids = prompt_tokens(target, read_prompts()[0])
    text = (ids * (CONTEXT // len(ids) + 1))[:CONTEXT]
    cache = make_prompt_cache(target.model)
    mx.eval(target.model(mx.array([text]), cache=cache))
    times: dict[int, list[float]] = {rows: [] for rows in range(1, most_rows + 1)}
    for rows in times:  # the first pass of a shape may compile
        _timed_pass(mx, target, cache, text[:rows], trim_to)
    for _ in budget.turns(100, share=0.9):
        for rows, own in times.items():
            own.append(_timed_pass(mx, target, cache, text[:rows], trim_to))
    median = {rows: statistics.median(own) for rows, own in times.items()}
    heads = ("rows", "median ms", "fastest ms", "cost of rows, in passes over one")
    rows = [(n, round(median[n], 3), round(min(own), 3), round(median[n] / median[1], 3)) for n, own in times.items()]
    note = f"Built-in target, {CONTEXT} tokens before the rows, {len(times[1])} passes each."
    summary = f"One row takes {median[1]:.2f} ms, {most_rows} rows {median[most_rows] / median[1]:.2f} times as long."
    return Result(True, summary, [Table("Cost of a pass", heads, rows, note, words=0, line=(heads[-1],))])


def _timed_pass(mx: Any, target: Any, cache: Any, ids: list[int], trim_to: Callable[..., object]) -> float:
    """Milliseconds of one pass of the target, which is taken back."""
    began = time.perf_counter()
    mx.eval(target.model(mx.array([ids]), cache=cache))
    taken = (time.perf_counter() - began) * 1e3
    trim_to(cache, CONTEXT, "target")
    return taken


def draw_and_analysis(budget: Budget, vocabularies: Sequence[int] = VOCABULARIES) -> Result:
    """Times drawing and analysing on a model that is a table of logits: alone, and beside passes of 5 ms (a matrix product).
    There it also tells how far the analysis falls behind, and how long it holds the decode loop."""
    import mlx.core as mx

    from engine.types import RULES
    from engine.values.wording import amount
    from tests.benchmarks import vocabulary as bench

    factor = bench.factor_of(PASS_MILLISECONDS)
    rounds, repeats = (4, 2) if budget.quick else (40, 5)
    draws: list[tuple[Any, ...]] = []
    analyses: list[tuple[Any, ...]] = []
    readers: list[tuple[Any, ...]] = []
    for turn, size in enumerate(vocabularies):
        target, draft = bench.tables(size)
        drafter = bench.TableDrafter(draft)
        free, paid = bench.Table(target), bench.Table(target, factor)
        alone = min(bench.draw_of_mlx_lm(target, 10) for _ in range(repeats))
        looking = min(bench.look_ups(free, drafter, 10) for _ in range(repeats))
        for index in budget.turns(len(RULES), share=0.8 / (len(vocabularies) - turn)):
            rule = RULES[index]
            count = bench.GAMMA + (bench.GAMMA + 1 if rule in ("match", "gumbel") else 1)
            bare = min(bench.round_of(free, drafter, rule, False, rounds).round for _ in range(repeats))
            draws.append((f"{size:,}", rule, round(alone, 3), round((bare - looking) / count, 3), round(bare - looking, 3)))
            beside = bench.pairs(paid, drafter, rule, rounds, repeats)
            added = beside[:, 1, 0] - beside[:, 0, 0]
            own = (beside[:, 1, 1] - beside[:, 0, 1]).mean()
            held, behind = beside[:, 1, 2].mean(), int(beside[:, 1, 3].max())
            without = statistics.median(beside[:, 0, 0].tolist())
            told = bench.telling(free, drafter, rule, rounds)
            spread = bench.interval(added).strip(" ()")
            without, adds, own, held = (round(float(each), 3) for each in (without, added.mean(), own, held))
            analyses.append((f"{size:,}", rule, without, adds, spread, own, held, behind, told))
        readers.append((f"{size:,}", *_beside_a_reader(mx, paid, bench.GAMMA + 1, 4 if budget.quick else 40)))
    heads = ("vocabulary", "rule")
    tables = [
        Table(
            "Draw",
            (*heads, "mlx-lm, ms a draw", "Draftlight, ms a draw", "all draws of a round, ms"),
            draws,
            f"A round of {bench.GAMMA} proposals without its look-ups, divided by its draws.",
            words=2,
        ),
        Table(
            "Analysis beside a pass",
            (
                *heads,
                "round, ms",
                "analysing adds, ms",
                "95%",
                "of the decoding thread, ms",
                "the loop is held, ms",
                "rounds behind, at most",
                "host alone, fastest to slowest",
            ),
            analyses,
            f"{rounds} rounds whose passes hold a matrix product of about {PASS_MILLISECONDS:g} ms; per round, until the last is "
            "analysed. The loop is held while the analysis has no room for another round.",
            words=2,
        ),
        Table(
            "A pass while another thread reads its predecessor's rows with numpy",
            ("vocabulary", "pass alone, ms", "beside the reader, ms", "handing over, ms", "the reader takes, ms"),
            readers,
            f"{bench.GAMMA + 1} rows, whose exponentials are summed up: more than the program's analysis reads. Handing them "
            "over to numpy copies them where the device has memory of its own.",
        ),
    ]
    adds, held, behind = (max(row[column] for row in analyses) for column in (3, 6, 7))
    summary = (
        f"Beside passes of about {PASS_MILLISECONDS:g} ms and up to {max(vocabularies):,} ids the analysis falls at most "
        f"{amount(behind, 'round')} behind, holds the loop for {held:.2f} ms a round and adds {adds:.2f} ms to one."
    )
    return Result(True, summary, tables)


def _beside_a_reader(mx: Any, model: Any, rows: int, count: int) -> tuple[float, ...]:
    """Milliseconds of a pass alone, of one while a thread reads the rows of the one before, of handing these over to numpy, and
    of reading them."""
    import numpy as np

    taken: list[float] = []
    handed: list[float] = []

    def read(view: Any) -> None:
        """Sums up the exponentials of rows."""
        began = time.perf_counter()
        np.exp(view - view.max(axis=-1, keepdims=True)).sum(axis=-1)
        taken.append((time.perf_counter() - began) * 1e3)

    passes: dict[bool, list[float]] = {False: [], True: []}
    with ThreadPoolExecutor(1) as pool:
        pending: Future[None] | None = None
        previous = model(mx.array([[1] * rows]))
        mx.eval(previous)
        for turn in range(2 * count):
            reads = turn >= count
            if pending is not None:
                pending.result()
            logits = model(mx.array([[1] * rows]))
            if reads:
                began = time.perf_counter()
                view = np.asarray(previous)
                handed.append((time.perf_counter() - began) * 1e3)
                pending = pool.submit(read, view)
            began = time.perf_counter()
            mx.eval(logits)
            passes[reads].append((time.perf_counter() - began) * 1e3)
            previous = logits
        if pending is not None:
            pending.result()
    return tuple(round(statistics.median(times), 3) for times in (passes[False], passes[True], handed, taken))


def speed(budget: Budget) -> Result:
    """Runs `draftlight bench` over every drafter that ships, at temperature 0 and 0.8, with mlx-lm's loop beside."""
    drafters = ",".join(name for name in budget.drafters if name != NO_DRAFTER)
    options = ["--drafters", drafters, "--temperatures", "0,0.8", "--top-p", "1", "--gamma", "auto", "--seed", "1"]
    options += ["--peers", "--anew"]
    if budget.quick:
        options += ["--max-tokens", "6", "--limit", "1", "--minutes", "0"]
    else:
        options += ["--max-tokens", "96" if _on_gpu() else "24", "--minutes", f"{0.85 * budget.seconds / 60:.3f}"]
    return speed_of(_json_of("bench", *options))


def speed_of(document: dict[str, Any]) -> Result:
    """The speed-ups in the JSON document of a benchmark."""
    overall = [entry for entry in document["summary"] if entry["category"] == "(all)"] or document["summary"]
    rows: list[tuple[Any, ...]] = []
    loops: list[tuple[Any, ...]] = []
    for entry in overall:
        setting, low_high = entry["setting"], entry["speedup_interval"]
        interval = "" if low_high is None else f"{low_high[0]:.2f} to {low_high[1]:.2f}"
        temperature = f"{setting['temperature']:g}"
        if setting["maker"] != "draftlight":
            if setting["drafter"] == NO_DRAFTER and entry["speedup"]:
                loops.append(
                    (temperature, round(1 / entry["speedup"], 3), _digits(entry["plain_tokens_per_second"]), entry["prompts"])
                )
        elif setting["drafter"] != NO_DRAFTER:
            figures = (_digits(entry[name]) for name in ("speedup", "tokens_per_second", "alpha", "tau"))
            rows.append((setting["drafter"], temperature, *figures, interval, entry["prompts"]))
    heads = ("drafter", "temperature", "speed-up over plain", "tokens/s", "alpha", "tau", "95%", "prompts")
    tables = [
        Table("Drafters", heads, rows, "Gamma auto, rule gumbel.", words=2, bars=heads[2]),
        Table(
            "Plain loop", ("temperature", "of mlx-lm's speed", "tokens/s", "prompts"), loops, words=1, bars="of mlx-lm's speed"
        ),
    ]
    best = max(rows, key=lambda row: row[2] or 0.0, default=None)
    notes = [*document["notes"], *document["missing"]]
    if best is None or not loops:
        return Result(False, "Nothing was measured.", tables, details="\n".join(notes))
    words = f"Fastest: {best[0]} at temperature {best[1]}, {best[2]:.2f} times plain decoding."
    return Result(True, words, tables, details="\n".join(notes))


def _digits(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


@dataclass(frozen=True)
class Part:
    """A part of the check. `share`: of the whole time, relative to those of the others."""

    title: str
    share: float
    run: Callable[[Budget], Result]


PARTS = {
    "tests": Part("Device tests", 100, device_tests),
    "greedy": Part("Greedy text against mlx-lm", 60, greedy_text),
    "prove": Part("Exactness (prove)", 150, prove),
    "waits": Part("Waits for the device", 40, device_waits),
    "rows": Part("Cost of 1 to 32 rows", 30, cost_of_rows),
    "draw": Part("Cost of draw and analysis", 60, draw_and_analysis),
    "speed": Part("Speed", 160, speed),
}
DEVICE = "device"


def main(arguments: list[str] | None = None) -> None:
    """Runs one part and writes what it found to a file, with the most memory that MLX's arrays took in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=(DEVICE, *PARTS))
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args(arguments)
    require_device()
    if chosen.part == DEVICE:
        found = describe_device()
    else:
        found = asdict(PARTS[chosen.part].run(Budget(chosen.seconds, chosen.quick)))
        core = sys.modules.get("mlx.core")
        found["peak_memory"] = core.get_peak_memory() if core else None
    chosen.file.write_text(json.dumps(found, allow_nan=False), encoding="utf-8")


if __name__ == "__main__":
    main()
