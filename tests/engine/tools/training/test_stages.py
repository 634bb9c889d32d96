"""The four stages of a training together: they go on, refuse what changed, and leave a folder that drafts."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.decode.decoding import decode
from engine.drafters import BlockDrafter, FeatureHead
from engine.models import loading
from engine.models.block_model import load_block
from engine.models.head_model import load_head
from engine.models.loaded import LoadedModel
from engine.tools.training import stages, writing
from engine.tools.training.stages import Report
from engine.tools.training.work import Work
from engine.types import DecodingOptions
from engine.values.errors import DraftlightError
from engine.values.requests.train import HeldOut, Trained, TrainRequest
from tests.engine.tools.training.test_writing import undecided


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return loading.load(str(undecided(tmp_path_factory.mktemp("model") / "tiny")))


def requests_in(folder: Path) -> Callable[..., TrainRequest]:
    """A small training on a few documents."""
    documents = folder / "documents"
    documents.mkdir()
    generator = np.random.default_rng(0)
    for number in range(12):
        words = generator.choice(["hello", " world", " hello", " wor", ", ", "ab", "0", "\n"], size=30)
        (documents / f"{number:02}.txt").write_text(f"{number} " + "".join(words))

    def make(**changes: Any) -> TrainRequest:
        settings: dict[str, Any] = {"output": folder / "head", "text": (documents,), "vocabulary": 64, "steps": 12}
        settings |= {"batch_tokens": 256, "learning_rate": 3e-3, "command": "draftlight train-drafter --this-one"}
        return TrainRequest(**{**settings, **changes})

    return make


@pytest.fixture(scope="module", autouse=True)
def few_measurements() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "MEASUREMENTS", 3)
        yield


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., TrainRequest]:
    return requests_in(tmp_path)


class Told:
    """What a training reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps: list[str] = []
        self.held_out: list[HeldOut] = []

    def train(self, target: LoadedModel, request: TrainRequest, report: Report | None = None) -> Trained:
        def take(step: str, fraction: float, detail: str) -> None:
            assert 0 <= fraction <= 1
            self.steps.append(f"{step}, {detail}" if detail else step)
            if report is not None:
                report(step, fraction, detail)

        return stages.train(target, request, self.lines.append, take, self.held_out.append)


def train(target: LoadedModel, request: TrainRequest, report: Report | None = None) -> Trained:
    return Told().train(target, request, report)


def step_continued_at(target: LoadedModel, request: TrainRequest) -> str:
    """Resumes a training, ends it at its next step, and returns the line that it printed about resuming."""
    told = Told()
    with pytest.raises(Killed):
        told.train(target, request, killing("training", 1))
    (line,) = (line for line in told.lines if "Continuing" in line)
    return line


@dataclass(frozen=True)
class Finished:
    """A training that has run to its end. Tests only read it, or ask for what is refused."""

    request_for: Callable[..., TrainRequest]
    request: TrainRequest
    told: Told
    trained: Trained


@pytest.fixture(scope="module")
def finished(target: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    told, request_for = Told(), requests_in(tmp_path_factory.mktemp("finished"))
    request = request_for()
    return Finished(request_for, request, told, told.train(target, request))


def test_the_folder_drafts_and_its_card_tells_the_truth(target: LoadedModel, finished: Finished) -> None:
    told, request, trained = finished.told, finished.request, finished.trained
    assert trained.output == request.output and trained.held_out is not None
    head = load_head(request.output)
    assert head.config.target_sha256 == target.sha256 and head.config.taps == (0, 1) and len(head.target_ids) == 64

    drafter = FeatureHead(request.output, target)
    prompt = target.tokenizer.encode("hello world, hello")
    rounds = list(decode(target, prompt, drafter, DecodingOptions(temperature=0.0, gamma=3, max_tokens=12, seed=1)))
    assert any(proposal.status == "accepted" for one in rounds for proposal in one.proposals)

    card = (request.output / "MODEL_CARD.md").read_text()
    for said in (
        target.sha256,
        "`00.txt`",
        "12 records",
        "layers 0, 1,",
        "Proposes 64 of",
        "- 12 steps of at most 256 padded tokens",
        "(planned: 12 steps). Training ran to the end.",
        "learning rate 0.003",
        "draftlight train-drafter --this-one",
        f"mlx {mx.__version__}",
    ):
        assert said in card, said
    best = trained.held_out
    row = " | ".join(f"{value:.3f}" for value in (*best.agreement, *best.overlap))
    assert f"| {best.step} (kept) | {row} |" in card
    assert best == max(told.held_out, key=lambda one: one.score)
    assert len([line for line in card.splitlines() if line.startswith("| ")]) == 1 + len(told.held_out)


def test_the_weights_written_are_those_that_were_measured(target: LoadedModel, finished: Finished) -> None:
    """Rounded to half precision, the head of the folder gives the held-out figures of its card."""
    request, trained, first = finished.request, finished.trained, Told()
    again = first.train(target, finished.request_for(start=request.output, output=request.output.with_name("second"), steps=1))
    assert trained.held_out is not None and again.held_out is not None
    np.testing.assert_allclose(first.held_out[0].overlap, trained.held_out.overlap, atol=2e-3)
    assert (
        f"the head with SHA-256 {stages.file_sha256(request.output / 'model.safetensors')}"
        in (request.output.with_name("second") / "MODEL_CARD.md").read_text()
    )


class Killed(BaseException):
    """Nothing in the program catches this: like kill -9, what is not on disk is gone."""


def killing(what: str, after: int) -> Report:
    """Kills at the `after`-th report of a step that begins like this."""
    seen = 0

    def report(step: str, fraction: float, detail: str) -> None:
        nonlocal seen
        seen += step.startswith(what)
        if seen == after:
            raise Killed

    return report


def test_a_killed_training_goes_on_and_ends_with_the_same_weights(
    target: LoadedModel, finished: Finished, request_for: Callable[..., TrainRequest], tmp_path: Path
) -> None:
    for what, after in (("reading text", 1), ("reading features", 1), ("training", 3), ("training", 6)):
        with pytest.raises(Killed):
            train(target, request_for(), killing(what, after))
    told = Told()
    told.train(target, request_for())
    assert "Continuing at step 4." in told.lines  # measured, hence saved, at a third of twelve
    whole = (finished.request.output / "model.safetensors").read_bytes()
    assert (tmp_path / "head" / "model.safetensors").read_bytes() == whole


def test_nothing_older_than_the_time_between_two_checkpoints_is_lost(
    target: LoadedModel, request_for: Callable[..., TrainRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "MEASUREMENTS", 1)
    monkeypatch.setattr(stages, "SAVE_EVERY", -1.0)
    with pytest.raises(Killed):
        train(target, request_for(), killing("training", 8))
    assert step_continued_at(target, request_for()) == "Continuing at step 7."


def test_a_stop_keeps_every_step(target: LoadedModel, request_for: Callable[..., TrainRequest]) -> None:
    class Stopped(Exception):
        pass

    def stop(step: str, fraction: float, detail: str) -> None:
        if step == "training" and detail.startswith("step 6"):
            raise Stopped

    with pytest.raises(Stopped):
        train(target, request_for(), stop)
    assert step_continued_at(target, request_for()) == "Continuing at step 6."


def test_repeated_command_repeats_no_work(target: LoadedModel, finished: Finished) -> None:
    request = finished.request
    before = {path: path.stat().st_mtime_ns for path in request.work_folder.rglob("*.np[yz]")}
    weights = (request.output / "model.safetensors").read_bytes()
    told = Told()
    told.train(target, request)
    assert "Training is already complete." in told.lines
    assert {path: path.stat().st_mtime_ns for path in request.work_folder.rglob("*.np[yz]")} == before
    assert (request.output / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"vocabulary": 32}, "vocabulary was 64 and is now 32"),
        ({"steps_back": 2}, "steps_back was 3 and is now 2"),
        ({"steps": None, "minutes": 5.0}, "minutes was not set and is now 5.0"),
        ({"taps": (1,)}, r"taps was \[0, 1\] and is now \[1\]"),
        ({"longest": 40}, "longest was 512 and is now 40"),
        ({"seed": 9}, "seed was 0 and is now 9"),
        ({"text": ()}, "sources was"),
    ],
)
def test_a_changed_setting_is_named(changed: dict[str, Any], said: str, target: LoadedModel, finished: Finished) -> None:
    with pytest.raises(DraftlightError, match=said):
        train(target, finished.request_for(**changed))


@pytest.fixture(scope="module")
def other_target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    other = loading.load(str(undecided(tmp_path_factory.mktemp("model") / "other")))
    object.__setattr__(other, "sha256", "f" * 64)
    return other


def test_another_target_is_named(other_target: LoadedModel, finished: Finished) -> None:
    with pytest.raises(DraftlightError, match="started with other settings: target was"):
        train(other_target, finished.request)


def test_text_without_held_out_part_is_refused_before_features_are_read(
    target: LoadedModel, request_for: Callable[..., TrainRequest], tmp_path: Path
) -> None:
    (tmp_path / "alone.txt").write_text("hello world, hello world, hello world")
    request, told = request_for(text=(tmp_path / "alone.txt",)), Told()
    with pytest.raises(DraftlightError, match="at least two different documents"):
        told.train(target, request)
    assert not any("reading features" in step for step in told.steps)


def test_a_stage_alone_says_what_has_to_come_first(target: LoadedModel, request_for: Callable[..., TrainRequest]) -> None:
    output = request_for().output
    for stage, first in (("features", "text"), ("train", "features"), ("folder", "train")):
        with pytest.raises(DraftlightError, match=f"Run --stage {first} first"):
            train(target, request_for(stage=stage, steps=2))
        assert train(target, request_for(stage=first, steps=2)).output is None and not output.exists()
    assert train(target, request_for(stage="folder", steps=2)).output == output
    assert " MB, including the target." in (output / "MODEL_CARD.md").read_text()


def test_a_training_that_gets_no_better_stops(
    target: LoadedModel, request_for: Callable[..., TrainRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "MEASUREMENTS", 16)
    scores = iter([0.5, 0.6, *[0.4] * 99])
    monkeypatch.setattr(
        stages.HeadTraining, "measure", lambda self, *_: HeldOut(self.progress.step, (next(scores),) * 4, (0.5,) * 4, 10)
    )
    request = request_for(steps=32, patience=3)
    trained = train(target, request)
    assert trained.held_out is not None and trained.held_out.step == 2
    card = (request.output / "MODEL_CARD.md").read_text()
    assert "- 22 steps" in card and "Training stopped early: no improvement in 3 measurements in a row." in card
    assert "those of step 2," in card
    assert [path.name for path in (request.work_folder / "train").glob("best-*")] == ["best-00000002.safetensors"]


def test_text_written_by_the_target_can_be_trained_on(
    target: LoadedModel, request_for: Callable[..., TrainRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MAX_ROWS", 16)
    request = request_for(text=(), write=200, longest=160, steps=2)
    told = Told()
    trained = told.train(target, request)
    assert trained.output is not None
    kinds = {step.partition(",")[0] for step in told.steps}
    assert kinds == {"writing questions", "writing answers", "reading features", "training", "measuring on held-out text"}
    card = (request.output / "MODEL_CARD.md").read_text()
    assert "Written by the target, greedily: " in card and "Provided text" not in card
    with pytest.raises(DraftlightError, match="text was"):
        train(target, replace(request, write=900))  # more text is welcome, but not in the middle of a training


def test_a_quantised_target_is_read_as_it_is_served(
    target: LoadedModel, request_for: Callable[..., TrainRequest], tmp_path: Path
) -> None:
    served = loading.load(str(undecided(tmp_path / "served")))
    nn.quantize(served.model, group_size=32, bits=4)
    request = request_for(steps=4)
    train(served, request)
    rounds = list(decode(served, [5, 6, 7, 8], FeatureHead(request.output, served), DecodingOptions(max_tokens=8, seed=2)))
    assert sum(len(one.proposals) for one in rounds) > 0


def test_the_disk_is_asked_first(
    target: LoadedModel, request_for: Callable[..., TrainRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12, 200_000_001))
    with pytest.raises(DraftlightError, match=r"needs [\d.]+ kB in .* but only 200 MB are free"):
        train(target, request_for())
    assert not list((request_for().work_folder / "features").iterdir())
    with pytest.raises(DraftlightError, match=r"Storing about 2,500,000 tokens of text with features needs"):
        train(target, request_for(text=(), output=request_for().output.with_name("more")))


def test_two_trainings_do_not_share_a_folder(target: LoadedModel, finished: Finished) -> None:
    with Work(finished.request.work_folder).locked(), pytest.raises(DraftlightError, match="Another training run is using"):
        train(target, finished.request)


def test_a_folder_with_something_else_is_not_overwritten(target: LoadedModel, finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DraftlightError, match="contains something other than a trained drafter"):
        train(target, finished.request_for(output=tmp_path))


def test_an_impossible_start_or_layer_is_refused(
    target: LoadedModel, other_target: LoadedModel, finished: Finished, tmp_path: Path
) -> None:
    head, output = finished.request.output, tmp_path / "next"
    for asked, changes, said in (
        (target, {"taps": (0, 7)}, "has 2 layers, counted from 0: it has no layer 7"),
        (target, {"start": tmp_path}, "so it is not a model folder"),
        (target, {"start": head, "taps": (1,)}, r"reads layers 0,1\. Omit --taps"),
        (other_target, {"start": head}, "not trained for"),
    ):
        with pytest.raises(DraftlightError, match=said):
            train(asked, finished.request_for(output=output, **changes))


def test_a_block_drafter_comes_out_of_the_same_stages(target: LoadedModel, request_for: Callable[..., TrainRequest]) -> None:
    told = Told()
    request = request_for(kind="block", layers=1, block_size=4, anchors=8, patience=0, both_ways=True)
    trained = told.train(target, request)
    block = load_block(request.output)
    assert block.config.packaging == "Draftlight" and block.config.causal == (False,)
    assert block.config.target_sha256 == target.sha256 and block.config.taps == (0, 1) and block.target_ids.shape == (64,)
    drafter = BlockDrafter(request.output, target, copies=False)
    prompt = target.tokenizer.encode("hello world, hello")
    rounds = list(decode(target, prompt, drafter, DecodingOptions(temperature=0.0, gamma=3, max_tokens=6, seed=1)))
    assert sum(len(one.proposals) for one in rounds) > 3
    card = (request.output / "MODEL_CARD.md").read_text()
    for said in (
        "# A block drafter for",
        "a block of 4 places (all see each other)",
        "Blocks of 4 places after at most 8",
        "- 12 steps of",
    ):
        assert said in card, said
    assert trained.held_out is not None
    other = replace(request, block_size=5)
    with pytest.raises(DraftlightError, match="steps_back was 4 and is now 5"):
        train(target, other)
    warm = request_for(output=request.output.with_name("other"), steps=1)
    train(target, warm)
    second = request_for(kind="block", start=warm.output, output=request.output.with_name("warm"), steps=1)
    assert "the head with SHA-256" in (train(target, second).output / "MODEL_CARD.md").read_text()
