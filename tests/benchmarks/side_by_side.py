"""Compares Draftlight's loops with mlx-lm's own, in one run on the same models: make bench-side-by-side

    python -m tests.benchmarks.side_by_side [--tokens 64] [--repeats 5] [--gamma 4] [--answers 200] [--parts plain]

Plain decoding against mlx-lm's `stream_generate`, at temperature 0 and 0.8, and `match` at temperature 0 against the same with a
draft model and as many draft tokens: tokens per second after the first token, contenders in turn, as ratios of neighbours.
"Analysed" is as the window asks for it: what is shown of a round is made beside the next one. Then how often the host waits for
the device in a round whose graph stays lazy, as on a GPU; the first token of a second turn whose history was read before, against
a pass over the new tokens alone; and the memory that the process holds as it answers again and again.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.generate import GenerationResponse, stream_generate
from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache
from mlx_lm.sample_utils import make_sampler
from mlx_lm.tokenizer_utils import TokenizerWrapper
from transformers import PreTrainedTokenizerFast

from engine.decode.context import DecodeContext
from engine.decode.decoding import decode
from engine.decode.loop import DecodeLoop
from engine.decode.run_control import Control
from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.runtime.worker import Engine
from engine.serving.overlap import OverlapExecutor
from engine.target.prompt_cache import logits_width
from engine.tools.bench.peers import OnTargetIds
from engine.types import (
    DecodingOptions,
    LoadFailed,
    Message,
    PrefillProgress,
    Request,
    Round,
    RoundFinished,
    RunFailed,
    RunFinished,
)
from tests.exactness import make_drafter, prompt_tokens, read_prompts
from tests.lazy_graph import as_on_a_gpu
from tests.synchronisations import counted

HISTORY, NEW = 2000, 60


def of_mlx_lm(model: LoadedModel, ids: list[int], tokens: int, temperature: float, **speculation: Any) -> float:
    """Tokens per second of its `stream_generate`, after the first token."""
    return _speed(_mlx_lm_tokens(model, ids, tokens, temperature, **speculation))


def _mlx_lm_tokens(
    model: LoadedModel, ids: list[int], tokens: int, temperature: float, **speculation: Any
) -> Iterator[GenerationResponse]:
    tokenizer = TokenizerWrapper(PreTrainedTokenizerFast(tokenizer_object=model.tokenizer._full), eos_token_ids=[])
    options = {"max_tokens": tokens, "sampler": make_sampler(temperature), **speculation}
    yield from stream_generate(model.model, tokenizer, ids, **options)


def of_draftlight(model: LoadedModel, ids: list[int], tokens: int, drafter: Drafter | None, analyse: bool, **asked: Any) -> float:
    """Tokens per second of `decode`, after the first round, as an answer completes its rounds."""
    options = DecodingOptions(**{"seed": 1, "max_tokens": tokens, "analyse": analyse, "phase_every": 0, **asked})

    def rounds() -> Iterator[Round]:
        control = Control()
        with OverlapExecutor() as beside:
            control.on_wait = beside.begin
            for outcome in DecodeLoop(DecodeContext(model, ids, drafter, options, control=control, eos_ids=())).outcomes():
                if analyse:
                    beside.put(outcome.whole, outcome.round.rows)
                yield outcome.round

    return _speed(token for current in rounds() for token in current.emitted)


def _speed(tokens: Iterator[Any]) -> float:
    next(tokens)
    began = time.perf_counter()
    return sum(1 for _ in tokens) / (time.perf_counter() - began)


def compare(title: str, contenders: dict[str, Callable[[], float]], repeats: int) -> None:
    """Prints the speeds, and their ratios to the first contender's, measured in turn."""
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            speeds[name].append(contender())
    reference = next(iter(speeds.values()))
    print(title)
    for name, values in speeds.items():
        ratios = sorted(value / other for value, other in zip(values, reference, strict=True))
        of_bests = max(values) / max(reference)
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(
            f"  {name:<20}{max(values):7.2f} tokens/s at best, {of_bests:.3f} of mlx-lm's best; "
            f"median of ratios {statistics.median(ratios):.3f} ({spread})",
            flush=True,
        )


def print_waits(model: LoadedModel, draft: Any, ids: list[int], gamma: int) -> None:
    """How often the host waits, for each round of a loop."""
    with as_on_a_gpu():
        print("Waits for the device, the graph kept lazy:")
        for name in ("none", "ngram", "builtin-draft", "head"):
            drafter = None if name == "none" else make_drafter(name, model)
            found = []
            for asked in (gamma, "auto"):
                options = DecodingOptions(rule="match", gamma=asked, seed=1, max_tokens=24, analyse=True, phase_every=0)
                with counted() as count:
                    rounds = list(decode(model, ids, drafter, options, eos_ids=()))
                steps = sum(not proposal.copied for current in rounds for proposal in current.proposals)
                found.append(
                    f"{count.waits / len(rounds):.2f} a round ({steps / len(rounds):.1f} draft steps) with gamma {asked}"
                )
            print(f"  {name:<20}{'; '.join(found)}")
        with counted() as count:
            tokens = list(_mlx_lm_tokens(model, ids, 24, 0.8))
        print(f"  {'mlx-lm':<20}{count.waits / len(tokens):.2f} a token of its plain loop", end="; ")
        with counted() as count:
            speculated = _mlx_lm_tokens(model, ids, 24, 0.8, draft_model=draft, num_draft_tokens=gamma)
            rounds_of_its = sum(not token.from_draft for token in speculated)
        print(f"{count.waits / rounds_of_its:.2f} a round of its speculative one", flush=True)


def answered(engine: Engine, request: Request) -> tuple[int, str, RunFinished]:
    """One answer of the engine: how many tokens of the prompt were read for it, its text, how it ended."""
    run_id = engine.submit(request)
    text, read = "", 0
    while True:
        engine.wait(1.0)
        for event in engine.events():
            if isinstance(event, (RunFailed, LoadFailed)):
                raise SystemExit(event.message)
            if getattr(event, "run_id", None) != run_id:
                continue
            if isinstance(event, PrefillProgress):
                read = event.total + 1
            if isinstance(event, RoundFinished):
                text += event.round.text
            if isinstance(event, RunFinished):
                return read, text, event


def text_of(model: LoadedModel, tokens: int, start: int = 0) -> str:
    """Prose of about so many tokens."""
    prose = " ".join(prompt.text for prompt in read_prompts())
    ids = model.tokenizer.encode(" ".join([prose] * (1 + (start + 2 * tokens) // 200)))
    return model.tokenizer.decode(ids[start : start + tokens])


def print_second_turn(engine: Engine, model: LoadedModel, folder: Path, repeats: int, drafter: str) -> None:
    """The first token of a warm second turn beside a pass over what is new in it."""
    options = DecodingOptions(seed=1, max_tokens=4)
    opening = Message("user", text_of(model, HISTORY - 30))

    def ask(*messages: Message) -> tuple[int, str, RunFinished]:
        trace = str(folder / f"turn {time.monotonic_ns()}.jsonl")
        return answered(engine, Request(messages, options, drafter=drafter, conversation=f"turns {drafter}", trace_path=trace))

    history, text, _ = ask(opening)
    cache = make_prompt_cache(model.model)
    ids = model.tokenizer.encode(text_of(model, HISTORY))
    for start in range(0, len(ids), 512):
        mx.eval(model.model(mx.array(ids[start : start + 512])[None], cache=cache))
    warm, alone = [], []
    for turn in range(repeats):
        second = Message("user", text_of(model, NEW - 20, start=500 + 97 * turn))
        new, _, finished = ask(opening, Message("assistant", text), second)
        assert new < 2 * NEW, "the history was not kept"
        assert finished.seconds_to_first_token is not None
        warm.append(finished.seconds_to_first_token)
        began = time.perf_counter()
        mx.eval(model.model(mx.array(ids[:new])[None], cache=cache))
        alone.append(time.perf_counter() - began)
        trim_prompt_cache(cache, new)
    ratio = min(warm) / min(alone)
    print(
        f"Second turn, drafter {drafter}: first token after {min(warm) * 1e3:.0f} ms with {history:,} tokens of history kept and "
        f"{new} new ones, {ratio:.2f} of a pass over as many alone ({min(alone) * 1e3:.0f} ms); "
        f"medians {statistics.median(warm) / statistics.median(alone):.2f}",
        flush=True,
    )


def resident_mebibytes() -> float:
    """What the process holds of the machine's memory. Linux only."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def print_memory(engine: Engine, folder: Path, answers: int) -> None:
    """What the process holds after some answers, and after all."""
    held: list[float] = []
    for number in range(answers):
        options = DecodingOptions(seed=number, max_tokens=10)
        message = Message("user", f"Say something about the number {number}.")
        trace = str(folder / f"answer {number}.jsonl")
        answered(engine, Request((message,), options, drafter="head", conversation=f"chat {number}", trace_path=trace))
        held.append(resident_mebibytes())
    early, late = statistics.median(held[answers // 10 : answers // 5]), statistics.median(held[-answers // 10 :])
    print(
        f"Memory: {early:.0f} MiB after {answers // 5} answers, {late:.0f} MiB after {answers} ({late - early:+.0f})", flush=True
    )


PARTS = ("plain", "speculation", "waits", "turn", "memory")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5, help="measurements, contenders in turn")
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--drafters", nargs="+", default=("none", "ngram", "head", "auto"), help="of the second turn")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    chosen = parser.parse_args(arguments)
    model = load("builtin")
    ids = prompt_tokens(model, read_prompts()[0])
    draft = OnTargetIds(load("builtin-draft"), logits_width(model.model))
    if "plain" in chosen.parts:
        compare_plain(model, ids, chosen.tokens, chosen.repeats)
    if "speculation" in chosen.parts:
        compare_speculation(model, draft, ids, chosen.tokens, chosen.gamma, chosen.repeats)
    if "waits" in chosen.parts:
        print_waits(model, draft, ids, chosen.gamma)
    if not {"turn", "memory"}.isdisjoint(chosen.parts):
        engine = Engine()
        with tempfile.TemporaryDirectory() as folder:
            if "turn" in chosen.parts:
                for drafter in chosen.drafters:
                    print_second_turn(engine, model, Path(folder), chosen.repeats, drafter)
            if "memory" in chosen.parts:
                print_memory(engine, Path(folder), chosen.answers)
            engine.close()


def compare_plain(model: LoadedModel, ids: list[int], tokens: int, repeats: int) -> None:
    """Without drafter."""
    for temperature in (0.0, 0.8):
        contenders = {
            "mlx-lm": lambda t=temperature: of_mlx_lm(model, ids, tokens, t),
            "plain": lambda t=temperature: of_draftlight(model, ids, tokens, None, False, temperature=t),
            "plain, analysed": lambda t=temperature: of_draftlight(model, ids, tokens, None, True, temperature=t),
        }
        compare(f"Plain, temperature {temperature:g}", contenders, repeats)


def compare_speculation(model: LoadedModel, draft: Any, ids: list[int], tokens: int, gamma: int, repeats: int) -> None:
    """With one draft model, under mlx-lm's rule."""
    drafter = make_drafter("builtin-draft", model)
    asked = {"rule": "match", "temperature": 0.0, "gamma": gamma}
    contenders = {
        "mlx-lm": lambda: of_mlx_lm(model, ids, tokens, 0.0, draft_model=draft, num_draft_tokens=gamma),
        "match": lambda: of_draftlight(model, ids, tokens, drafter, False, **asked),
        "match, analysed": lambda: of_draftlight(model, ids, tokens, drafter, True, **asked),
    }
    compare(f"Speculation with builtin-draft, temperature 0, {gamma} tokens drafted", contenders, repeats)


if __name__ == "__main__":
    main()
