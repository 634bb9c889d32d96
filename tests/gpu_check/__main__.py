"""Checks correctness and speed on this machine's GPU: make gpu-check

    python -m tests.gpu_check [--minutes 10] [--parts tests,greedy] [--quick] [--output FOLDER]

Takes ten minutes at most and needs no network, only the built-in model (`make model`). Each part runs in a process of its own
with its share of the time; what one leaves goes to the next ones. A part that fails, crashes or hangs does not stop the others.
Leaves gpu-check.html and gpu-check.json in the folder. The exit status is 1 if any part failed. On the CPU back-end everything
runs, too, and the report says that no GPU took part.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.files.paths import models_folder
from tests.gpu_check.parts import DEVICE, PARTS, REPOSITORY
from tests.gpu_check.report import FORMAT, anonymous, to_html

OUTPUT = REPOSITORY / "build" / "gpu-check"
Outcome = dict[str, Any]


def run_part(name: str, seconds: float, quick: bool, home: Path) -> Outcome:
    """Returns the outcome that a part wrote, from a process that is killed with all that it started when its time is over. A part
    that wrote nothing has failed, and its last lines say why."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log"
        command = [sys.executable, "-m", "tests.gpu_check.parts", name, str(result), "--seconds", f"{0.9 * seconds:.1f}"]
        environment = {**os.environ, "DRAFTLIGHT_HOME": str(home), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
        began = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                command + ["--quick"] * quick,
                cwd=REPOSITORY,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                ended = _ending(process.wait(timeout=seconds))
            except subprocess.TimeoutExpired:
                ended = f"not done after {seconds:.0f} s"
            finally:
                _kill_all_of(process)
        taken = round(time.monotonic() - began, 1)
        if not ended and result.is_file():
            return {**json.loads(result.read_text(encoding="utf-8")), "seconds": taken}
        said = log.read_text(encoding="utf-8", errors="replace")
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
        return {
            "passed": False,
            "summary": f"{ended or 'wrote nothing'}: {last}".removesuffix(": ")[:500],
            "details": said[-4000:],
            "seconds": taken,
        }


def _ending(status: int) -> str:
    """How a process ended, in words; empty for success."""
    if status < 0:
        return f"ended by signal {signal.Signals(-status).name}"
    return f"ended with status {status}" if status else ""


def _kill_all_of(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and those that it started: its whole session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def check(names: list[str], minutes: float, quick: bool, run: Callable[..., Outcome] = run_part) -> dict[str, Any]:
    """The whole report as a document. `run`: carries out one part, as `run_part`."""
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)  # what the program keeps about this machine stays as it is
        models_folder().mkdir(parents=True, exist_ok=True)
        (home / "models").symlink_to(models_folder().resolve(), target_is_directory=True)
        device = run(DEVICE, 60.0, quick, home)
        name = device.get("name") or f"unknown ({device.get('summary', '')})"
        print(f"{name}, {device.get('backend', 'no back-end')}", flush=True)
        parts = []
        for index, part in enumerate(names):
            left = end - time.monotonic()
            seconds = max(1.0, left * PARTS[part].share / sum(PARTS[name].share for name in names[index:]))
            print(f"{PARTS[part].title} (up to {seconds:.0f} s) … ", end="", flush=True)
            outcome = run(part, seconds, quick, home)
            status = "skipped" if outcome.get("skipped") else "passed" if outcome["passed"] else "failed"
            print(f"{status}, {outcome['seconds']:.0f} s: {outcome['summary']}", flush=True)
            parts.append({"name": part, "title": PARTS[part].title, "status": status, **outcome})
    document = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "passed": "name" in device and all(part["status"] != "failed" for part in parts),
        "quick": quick,
        "device": device,
        "parts": parts,
    }
    return anonymous(document)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="for everything together (default: %(default)s)")
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="measure next to nothing, to see that the parts run")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER", help="where the report goes")
    chosen = parser.parse_args(arguments)
    names = chosen.parts.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    document = check(names, chosen.minutes, chosen.quick)
    chosen.output.mkdir(parents=True, exist_ok=True)
    files = [chosen.output / "gpu-check.html", chosen.output / "gpu-check.json"]
    files[0].write_text(to_html(document), encoding="utf-8")
    files[1].write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if not document["device"].get("gpu"):
        print("No GPU took part: MLX computes on the processor here.")
    print("The report: " + " and ".join(str(path) for path in files))
    return 0 if document["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
