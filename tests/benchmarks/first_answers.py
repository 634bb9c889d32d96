"""Measures whether an automatic gamma slows down the first answer of a new installation, which has no stored costs or rates.

    python -m tests.benchmarks.first_answers [--installations 20] [--prompts FILE] [--tokens 48]

Each installation is an empty data folder and one `draftlight chat` with default settings. A second chat in the same folder,
without a drafter, gives the time of a plain round there. For each installation it prints the longest draft that was sampled in
rounds 2 to 10, and the longest of these rounds in plain rounds (the median of the plain answer); then the medians over all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.exactness import OWN_PROMPTS, read_prompts

FIRST, LAST = 2, 10
QUESTION = "Why is the sky blue?"
Round = dict[str, Any]


def answer(home: Path, question: str, tokens: int, *options: str) -> list[Round]:
    """Returns the rounds of one answer in a data folder, as its trace has them."""
    command = [sys.executable, "-m", "app", "chat", question, "--json", "--max-tokens", str(tokens), *options]
    environment = {**os.environ, "DRAFTLIGHT_HOME": str(home), "HOME": str(home)}
    finished = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    entries = [json.loads(line) for line in finished.stdout.splitlines()]
    return [entry for entry in entries if entry["kind"] == "round"]


def sampled(round_: Round) -> int:
    """Returns the number of proposals that were not copied."""
    return sum(not proposal["copied"] for proposal in round_["proposals"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the installations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--installations", type=int, default=20)
    parser.add_argument("--prompts", type=Path, default=OWN_PROMPTS)
    parser.add_argument("--tokens", type=int, default=48)
    options = parser.parse_args(arguments)
    others = [prompt.text for prompt in read_prompts(options.prompts, limit=options.installations)]
    questions = [QUESTION, *others][: options.installations]
    longest, slowest = [], []
    for number in range(options.installations):
        question = questions[number % len(questions)]
        with tempfile.TemporaryDirectory() as folder:
            first = answer(Path(folder), question, options.tokens)
            plain = median(
                round_["milliseconds"]["total"] for round_ in answer(Path(folder), question, 24, "--drafter", "none")[1:]
            )
        looked_at = [round_ for round_ in first if FIRST <= round_["index"] + 1 <= LAST]
        longest.append(max(map(sampled, looked_at), default=0))
        slowest.append(max((round_["milliseconds"]["total"] for round_ in looked_at), default=plain) / plain)
        lengths = [len(round_["proposals"]) for round_ in looked_at]
        print(
            f"{number + 1:3}  chain {longest[-1]}  slowest {slowest[-1]:.2f}  proposals {lengths}  {question[:40]!r}", flush=True
        )
    print(f"longest chain {max(longest)}, median of the slowest rounds {median(slowest):.2f} plain rounds")


if __name__ == "__main__":
    main()
