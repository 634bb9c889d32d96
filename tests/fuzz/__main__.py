"""Fuzzes one target after the other and prints the table: `make fuzz`, or `python -m tests.fuzz TARGET... --inputs 1000000`.

Each target runs in a process of its own, guided by the coverage that Atheris measures (`packaging/fuzz.lock`). Counts, corpus and
findings are stored in `build/fuzz`, so an interrupted run continues; `--table` prints them. The input of a finding is in
`build/fuzz/findings`: mend the reader, then move the input to `tests/fuzz/findings`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WORK = Path("build/fuzz")
_OFTEN = 500
_ADDRESSES = 8 * 2**30
"""Bytes of address space of a process: an input that asks for more is a finding, not the end of the machine."""
_LONGEST = 16_384


def main() -> int:
    """Runs what is asked for; 1 if there are findings."""
    from tests.fuzz.targets import TARGETS

    asked = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    asked.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all of them if none is named")
    asked.add_argument("--inputs", type=int, default=1_000_000, help="how many for each, those of earlier runs included")
    asked.add_argument("--table", action="store_true", help="print the table only")
    asked.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = asked.parse_args()
    if chosen.child:
        _fuzz(chosen.targets[0], chosen.inputs)
        return 0
    for name in chosen.targets or TARGETS:
        while not chosen.table and _count(name)["inputs"] < chosen.inputs:
            _child(name, chosen.inputs)
    return _print_table(list(chosen.targets or TARGETS))


def _child(name: str, inputs: int) -> None:
    """One process, until it is done or an input ends it; that input is a finding then."""
    from tests.fuzz.targets import in_memory

    WORK.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz", name, "--child", "--inputs", str(inputs)]
    before = _count(name)["inputs"]
    with in_memory() as folder, (WORK / f"{name}.log").open("a") as log:
        home = {"DRAFTLIGHT_HOME": f"{folder}/home", "TMPDIR": folder, "HF_HUB_OFFLINE": "1", "QT_QPA_PLATFORM": "offscreen"}
        home["RUST_BACKTRACE"] = "0"  # printing one costs more than the input that panics
        ended = subprocess.run(command, env={**os.environ, **home}, stdout=log, stderr=log).returncode
    if ended and _count(name)["inputs"] == before and not list(WORK.glob(f"{name}-*")):
        raise SystemExit(f"{name} does not start; see {WORK / name}.log")
    for fatal in WORK.glob(f"{name}-*"):  # written by libFuzzer: crash-, timeout-, oom-
        _keep(name, fatal.name.removeprefix(f"{name}-").rpartition("-")[0], fatal.read_bytes())
        fatal.unlink()


def _fuzz(name: str, inputs: int) -> None:
    import atheris

    with atheris.instrument_imports(include=["engine", "app"], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS

        target = TARGETS[name]
        seeds = target.seeds()  # imports what is to be measured
        for seed in seeds:
            _quietly(target.check, seed)
    from tests.fuzz.watched import finding

    if sys.platform != "darwin":
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    corpus = WORK / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    kept = [path.read_bytes() for path in sorted((Path("tests/fuzz/findings") / name).glob("*"))]
    for seed in (*seeds, *kept):
        (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    count = _count(name)
    used, code = count["seconds"], _code()

    def note() -> None:
        """Writes the count down."""
        count["seconds"] = round(used + time.process_time(), 1)
        count["code"][code] = count["code"].get(code, 0) + count["inputs"] - sum(count["code"].values())
        (WORK / f"{name}.json").write_text(json.dumps(count))

    def one(data: bytes) -> None:
        """Judges one input."""
        found = finding(target.check, data)
        count["inputs"] += 1
        if found is not None and _keep(name, found, data):
            print(name, count["inputs"], found, flush=True)
        if count["inputs"] % _OFTEN == 0:
            note()
            if count["inputs"] >= inputs:
                os._exit(0)

    def changed(data: bytes, longest: int, seed: int) -> bytes:
        """An input in another form: by the target's own changes mostly, else by those of libFuzzer."""
        rng = random.Random(seed)
        if target.mutate is not None and rng.random() < 0.85:
            return target.mutate(bytes(data), rng)[:longest]
        return bytes(atheris.Mutate(data, longest))

    options = [
        "fuzz",
        str(corpus),
        f"-artifact_prefix={WORK}/{name}-",
        f"-max_len={_LONGEST}",
        "-timeout=60",
        "-rss_limit_mb=6000",
    ]
    options += ["-verbosity=0", "-print_final_stats=0", "-reload=0", f"-seed={count['inputs'] + 1}", "-handle_segv=1"]
    atheris.Setup(options, one, **({"custom_mutator": changed} if target.mutate is not None else {}))
    atheris.Fuzz()


def _quietly(check: Any, data: bytes) -> None:
    from engine.values.errors import DraftlightError

    try:
        check(data)
    except DraftlightError:
        return


def _keep(name: str, found: str, data: bytes) -> bool:
    """Keeps the smallest input of each kind of finding; whether the kind is new."""
    kind = "".join(char if char.isalnum() else "-" for char in found)
    path = WORK / "findings" / name / kind
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    if is_new or path.stat().st_size > len(data):
        path.write_bytes(data)
    return is_new


def _count(name: str) -> dict[str, Any]:
    none: dict[str, Any] = {"inputs": 0, "seconds": 0.0, "code": {}}
    try:
        return none | json.loads((WORK / f"{name}.json").read_text())
    except (OSError, ValueError):
        return none


def _code() -> str:
    """The commit that is fuzzed."""
    return subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip() or "unknown"


def _print_table(names: list[str]) -> int:
    print(f"{'target':16} {'inputs':>10} {'CPU s':>8} {'inputs/s':>9} {'corpus':>7} {'findings':>9} {'mended':>7}  code")
    open_findings = 0
    for name in names:
        count = _count(name)
        found = [path.name for path in sorted((WORK / "findings" / name).glob("*"))]
        mended = [path.name for path in sorted((Path("tests/fuzz/findings") / name).glob("*"))]
        open_findings += len(found)
        corpus = len(list((WORK / "corpus" / name).glob("*")))
        rate = count["inputs"] / count["seconds"] if count["seconds"] else 0
        code = ", ".join(f"{commit} ({inputs:,})" for commit, inputs in count["code"].items())
        print(
            f"{name:16} {count['inputs']:10,} {count['seconds']:8,.0f} {rate:9,.0f} {corpus:7,} {len(found):9} {len(mended):7}"
            f"  {code}{'  ' + ', '.join(found) if found else ''}"
        )
    return 1 if open_findings else 0


if __name__ == "__main__":
    sys.exit(main())
