"""The four stages of `draftlight train-drafter`, in order; each one resumes after an interruption."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from engine.files.hashes import file_sha256
from engine.files.model_folder import CONFIG, read_json
from engine.machine import provenance
from engine.machine.device import device
from engine.models.block_config import BlockConfig
from engine.models.block_model import BlockModel, config_to_write, save_block
from engine.models.head_model import HeadConfig, HeadModel, save_head
from engine.models.loaded import LoadedModel
from engine.target.layer_taps import embedding_of, layer_count
from engine.tools.training import features, head_card, texts
from engine.tools.training.drafter_training import BlockTraining, DrafterTraining, HeadTraining, Plan, block_memory, head_memory
from engine.tools.training.features import Example
from engine.tools.training.first_weights import (
    block_config_for,
    config_for,
    earlier_head,
    frequent_tokens,
    fresh_block,
    fresh_head,
    mask_token,
)
from engine.tools.training.lessons import require_several, split
from engine.tools.training.reading import Reader, default_taps, reader_for
from engine.tools.training.work import Work
from engine.tools.training.writing import SelfplayWriter
from engine.values.drafter_kinds import BLOCK_FOLDER, HEAD_FOLDER
from engine.values.errors import DraftlightError
from engine.values.requests.train import STAGES, HeldOut, Trained, TrainRequest
from engine.values.wording import amount, size

TOKENS_PER_ANSWER_TOKEN = 2.5
"""Estimated tokens of written records, prompts included, per answer token: used to state the disk space needed beforehand."""
FREED_BYTES = 500_000_000
"""Freed bytes that MLX may keep for reuse."""

_RATE_AFTER = 5.0

Tell = Callable[[str], None]


def train(target: LoadedModel, request: TrainRequest, tell: Tell, report: Report, measured: Callable[[HeldOut], None]) -> Trained:
    """Runs the requested stages.

    Args:
        tell: called with lines that stay visible. measured: called with every measurement.
        report: called with the current step, the fraction of its stage, and figures of the step. It may raise to interrupt, and
            what was done until then is saved.

    Raises:
        DraftlightError: says what is not possible, and what to do.
    """
    check_output(request.output)
    work = Work(request.work_folder)
    with work.locked():
        return _Run(work, target, request, tell, report, measured).stages()


def check_output(folder: Path) -> None:
    """Raises DraftlightError if the folder contains anything but a trained drafter, because it must not be overwritten."""
    if folder.is_file():
        raise DraftlightError(f"{folder} is a file. Give a folder for the drafter.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    config = folder / CONFIG
    if not config.is_file() or read_json(config).get("model_type") not in (HEAD_FOLDER, BLOCK_FOLDER):
        raise DraftlightError(
            f"{folder} contains something other than a trained drafter. Choose an empty or new folder for --output."
        )


class _Run:
    def __init__(
        self,
        work: Work,
        target: LoadedModel,
        request: TrainRequest,
        tell: Tell,
        report: Report,
        measured: Callable[[HeldOut], None],
    ) -> None:
        self.work, self.target, self.request = work, target, request
        self.tell, self.report, self.measured = tell, report, measured
        self.start: HeadModel | None = None
        if request.start is not None:
            self.start = earlier_head(request.start, target, request.taps)
        self.config: HeadConfig | BlockConfig = self._config()
        self.vocabulary = self.config.vocab_size
        self.longest = min(request.longest, target.context_length)

    def _config(self) -> HeadConfig | BlockConfig:
        if self.start is not None:
            return self.start.config if self.request.kind == "head" else self._block_config(self.start.config.taps)
        layers = layer_count(self.target.model)
        if not layers:
            raise DraftlightError(
                f"No drafter can be made for {self.target.name}: its layers are not where mlx-lm models keep them."
            )
        taps = self.request.taps or default_taps(layers)
        if max(taps) >= layers:
            raise DraftlightError(
                f"{self.target.name} has {amount(layers, 'layer')}, counted from 0: it has no layer {max(taps)}."
            )
        return config_for(self.target, taps) if self.request.kind == "head" else self._block_config(taps)

    def _block_config(self, taps: Sequence[int]) -> BlockConfig:
        """Returns the configuration of a block drafter. Its mask token is still 0: it is chosen once the training text is known.

        Args:
            taps: indices of the target's layers whose outputs the drafter reads.
        """
        request = self.request
        paired = self.start is not None
        return block_config_for(self.target, taps, request.layers, request.block_size, not request.both_ways, 0, paired)

    def stages(self) -> Trained:
        """Runs the requested stages in order.

        Returns:
            The folder if it was written, and the best measurement if the training was loaded.
        """
        wanted = STAGES if self.request.stage is None else (self.request.stage,)
        if {"text", "features"} & set(wanted):
            reader = reader_for(self.target, self.config.taps)
            if "text" in wanted:
                self._text(reader)
            if "features" in wanted:
                self._features(reader)
        if not {"train", "folder"} & set(wanted):
            return Trained(None, None)
        training = self._prepared()
        if "train" in wanted:
            self._train(training)
        if "folder" in wanted:
            self._folder(training)
        return Trained(self.request.output if "folder" in wanted else None, training.progress.best)

    # Text

    def _text(self, reader: Reader) -> None:
        request, work = self.request, self.work
        sources = texts.find(request.text)
        work.record_or_compare(
            "text",
            {
                "target": self.target.sha256,
                "sources": [[path.name, file_sha256(path)] for path in sources],
                "longest": self.longest,
                "temperatures": list(request.temperatures),
                "seed": request.seed,
            },
        )
        per_token = self._bytes_per_token()
        if request.tokens_to_write:
            expected = round(TOKENS_PER_ANSWER_TOKEN * request.tokens_to_write)
            what = f"Storing about {amount(expected, 'token')} of text with features"
            self.tell(work.require_space(expected * per_token - _stored_bytes(work.features), what))
        if sources:
            self._read_given_text(sources)
        if request.tokens_to_write:
            self._write_text(reader, request.tokens_to_write)
        self.tell(f"Text: {amount(_count(self._records()), 'token')} in {work.text}.")

    def _read_given_text(self, sources: Sequence[Path]) -> None:
        records = texts.read_given(sources, self.target.tokenizer, self.longest)
        number = 0
        while group := list(islice(records, texts.RECORDS)):
            path = self.work.text / f"{texts.GIVEN}-{number:05}.npz"
            number += 1
            self.report("reading text", 0.0, f"file {number}")
            if not path.exists():
                texts.save(path, group)
        if not number:
            raise DraftlightError("The given text is empty, or every piece of it is shorter than a few tokens.")

    def _write_text(self, reader: Reader, wanted: int) -> None:
        request = self.request
        answers = _counting(self.report, "writing answers", wanted)

        def tick(what: str, tokens: int) -> None:
            """Reports the current step: writing questions, or answers with their number of tokens."""
            if what == "questions":
                self.report("writing questions", 0.0, "")
            else:
                answers(tokens)

        writer = SelfplayWriter(self.target, reader, self.work.text, self.longest, request.temperatures, request.seed, tick)
        written = writer.write(wanted)
        if written > 1.5 * wanted:
            self.tell(
                f"{amount(written, 'answer token')} already there, more than the {wanted:,} requested; all of them are used."
            )

    def _records(self) -> list[texts.TextRecord]:
        files = texts.files(self.work.text)
        if not files:
            raise DraftlightError(f"There is no text in {self.work.text} yet. Run --stage text first.")
        return [record for file in files for record in texts.load(file)]

    # Features

    def _bytes_per_token(self) -> int:
        return features.bytes_per_token(len(self.config.taps), self.config.hidden_size, self.vocabulary)

    def _features(self, reader: Reader) -> None:
        work = self.work
        work.record_or_compare("features", {"target": self.target.sha256, "taps": list(self.config.taps)})
        records = self._records()
        require_several({record.group for record in records})  # reading the features may take hours
        total = _count(records)
        missing = max(0, total * self._bytes_per_token() - _stored_bytes(work.features))
        self.tell(work.require_space(missing, "The rest of the features"))
        tick = _counting(self.report, "reading features", total)
        features.cache(reader, texts.files(work.text), work.features, self.vocabulary, tick)
        self.tell(f"Features: {amount(total, 'token')}, {size(_stored_bytes(work.features))} in {work.features}.")

    # Training

    def _prepared(self) -> DrafterTraining:
        """Returns the training at its current step, after a check of its settings."""
        request, work = self.request, self.work
        examples = features.examples(texts.files(work.text), work.features)
        if not examples:
            raise DraftlightError(f"There is no text in {work.text} yet. Run --stage text and --stage features first.")
        train, held_out = split(examples)
        if self.start is None:
            ids = frequent_tokens(train, min(request.vocabulary, self.vocabulary), self.vocabulary)
        else:
            ids = np.array(self.start.target_ids)
            self.tell(f"Starting from {request.start}, with its {amount(len(ids), 'token')}.")
        plan = self._plan()
        work.record_or_compare("train", self._settings(plan, examples, ids))
        training = self._fresh(plan, ids, train, held_out)
        if (work.train / CHECKPOINT).exists():
            training.resume(work.train / CHECKPOINT)
        return training

    def _fresh(self, plan: Plan, ids: np.ndarray, train: Sequence[Example], held_out: Sequence[Example]) -> DrafterTraining:
        """Returns the training before its first step."""
        embedding = embedding_of(self.target.model)
        if isinstance(self.config, BlockConfig):
            config = replace(self.config, mask_token_id=mask_token(self.target, [*train, *held_out]))
            block = fresh_block(self.target, config, ids, self.request.seed, self.start)
            return BlockTraining(plan, block, embedding, train, held_out)
        head = self.start or fresh_head(self.target, self.config, ids, self.request.seed)
        return HeadTraining(plan, head, embedding, train, held_out)

    def _plan(self) -> Plan:
        request = self.request
        is_block = request.kind == "block"
        return Plan(
            steps_back=request.block_size if is_block else request.steps_back,
            anchors=request.anchors if is_block else 0,
            steps=request.steps,
            minutes=request.minutes_to_train,
            learning_rate=request.learning_rate,
            variation=request.variation,
            copied=request.copied,
            batch_tokens=request.batch_tokens,
            seed=request.seed,
        )

    def _settings(self, plan: Plan, examples: Sequence[Example], ids: np.ndarray) -> dict[str, Any]:
        digest = hashlib.sha256()
        for example in examples:
            digest.update(example.tokens.tobytes())
        planned = asdict(plan)
        if self.request.kind == "head":
            del planned["anchors"]
        else:
            planned |= {"kind": self.request.kind, "layers": self.request.layers, "both_ways": self.request.both_ways}
        return {
            **planned,
            "target": self.target.sha256,
            "taps": list(self.config.taps),
            "vocabulary": len(ids),
            "text": f"{amount(sum(map(len, examples)), 'token')}, {digest.hexdigest()[:16]}",
            "start": None if self.start is None else self.start.sha256,
            "patience": self.request.patience,
        }

    def _train(self, training: DrafterTraining) -> None:
        patience = self.request.patience
        if ended(training, patience):
            self.tell("Training is already complete.")
            return
        weights = dict(tree_flatten(training.model.trainable_parameters()))
        parameters = sum(array.size for array in weights.values())
        self.tell(self.work.require_space(8 * 4 * parameters, "Storing two checkpoints and the best weights"))
        max_length = max(map(len, training.train))
        columns = len(training.ids)
        if isinstance(self.config, BlockConfig):
            memory = block_memory(self.config, columns, training.plan, max_length, parameters)
        else:
            memory = head_memory(self.config, columns, training.plan, max_length, parameters)
        self.tell(f"Training needs about {size(memory)} of memory in addition to the target; --batch-tokens changes this.")
        if training.progress.step:
            self.tell(f"Continuing at step {training.progress.step:,}.")
        previous = mx.set_cache_limit(FREED_BYTES)
        mx.reset_peak_memory()
        try:
            run_to_end(training, self.work.train, patience, self.report, self.measured)
        finally:
            mx.set_cache_limit(previous)
        self.tell(
            f"{ended(training, patience)} Peak memory held by MLX: {size(training.progress.peak_bytes)}, including the target."
        )

    # The folder

    def _folder(self, training: DrafterTraining) -> None:
        best = training.progress.best
        if best is None:
            raise DraftlightError(f"There are no trained weights in {self.work.train} yet. Run --stage train first.")
        training.load_weights(weights_file(self.work.train, best))
        sharper = training.sharpen()
        card = head_card.card(self._facts(training, sharper, training.measure()))
        if isinstance(training.model, BlockModel):
            save_block(training.model, self.request.output, config_to_write(training.model.config), card)
        elif isinstance(training.model, HeadModel):
            save_head(training.model, self.request.output, card)
        self.tell(f"The drafter is in {self.request.output}. Use it with --drafter {self.request.output}.")

    def _facts(self, training: DrafterTraining, sharper: float, as_written: HeldOut) -> head_card.Facts:
        files = texts.files(self.work.text)
        written, given = head_card.count(files)
        train, held_out = split(features.examples(files, self.work.features))
        ids = training.ids
        spoken = np.concatenate([one.tokens[one.prompt_length :] for one in held_out])
        layers = "layer" if self.request.kind == "head" or self.request.layers == 1 else amount(self.request.layers, "layer")
        origin = f"copied from the target's last {layers} where shapes allow, otherwise random"
        if self.start is not None:
            origin = f"the head with SHA-256 {self.start.sha256}"
        return head_card.Facts(
            target=self.target.name,
            config=self.config,
            columns=len(ids),
            sources=self.work.sources(),
            written=written,
            given=given,
            trained=(len(train), sum(map(len, train))),
            held_out=(len(held_out), sum(map(len, held_out))),
            coverage=float(np.isin(spoken, ids).mean()),
            plan=training.plan,
            progress=training.progress,
            start=origin,
            ended=ended(training, self.request.patience) or "Training was not complete when this folder was written.",
            command=self.request.command,
            device=device().name,
            versions=provenance.versions(),
            sharper=sharper,
            as_written=as_written,
        )


def _counting(report: Report, what: str, total: int) -> Callable[[int], None]:
    """Returns a function that reports the tokens done so far, and their rate since the first call."""
    first_call: tuple[float, int] | None = None

    def tick(done: int) -> None:
        """Reports the tokens done so far, and after some time also their rate."""
        nonlocal first_call
        now = time.monotonic()
        first_call = first_call or (now, done)
        elapsed = now - first_call[0]
        rate = f", {(done - first_call[1]) / elapsed:.0f} per second" if elapsed > _RATE_AFTER else ""
        report(what, min(1.0, done / total), f"{done:,} of {amount(total, 'token')}{rate}")

    return tick


def _count(records: Sequence[texts.TextRecord]) -> int:
    return sum(len(record.tokens) for record in records)


def _stored_bytes(folder: Path) -> int:
    """Returns the bytes of the files in a folder's subfolders."""
    return sum(path.stat().st_size for path in folder.glob("*/*.npy"))


SAVE_EVERY = 40.0
"""Seconds between two checkpoints: the most, plus one step, that an interruption can lose."""
MEASUREMENTS = 16
"""Measurements in a whole training, not counting the one before it."""
CHECKPOINT = "checkpoint.safetensors"

Report = Callable[[str, float, str], None]


def ended(training: DrafterTraining, patience: int) -> str:
    """Returns why the training has ended; empty if it has not."""
    if training.fraction >= 1:
        return "Training ran to the end."
    if patience and training.progress.since_best >= patience:
        return f"Training stopped early: no improvement in {amount(patience, 'measurement')} in a row."
    return ""


def weights_file(folder: Path, held_out: HeldOut) -> Path:
    """Returns the file of the weights with this measurement, if it was the best."""
    return folder / f"best-{held_out.step:08}.safetensors"


def run_to_end(
    training: DrafterTraining, folder: Path, patience: int, report: Report, measured: Callable[[HeldOut], None]
) -> None:
    """Trains until it has `ended`; `folder` contains what is needed to resume.

    Args:
        report: called after every step; if it raises, a checkpoint is written and the training ends.
        measured: called with every measurement.
    """
    _measure_if_due(training, folder, report, measured)
    saved = time.monotonic()
    for _ in training.run():
        try:
            report("training", min(1.0, training.fraction), _figures(training))
        except Exception:
            training.save(folder / CHECKPOINT)
            raise
        if _measure_if_due(training, folder, report, measured):
            saved = time.monotonic()
            if ended(training, patience):
                return
        elif time.monotonic() - saved > SAVE_EVERY:
            training.save(folder / CHECKPOINT)
            saved = time.monotonic()


def _figures(training: DrafterTraining) -> str:
    """Returns the current step, its loss and the best overlap, in words."""
    progress = training.progress
    best = "" if progress.best is None else f", best overlap {progress.best.overlap[0]:.3f}"
    return f"step {progress.step:,}, loss {progress.loss:.3f}{best}"


def _measure_if_due(training: DrafterTraining, folder: Path, report: Report, told: Callable[[HeldOut], None]) -> bool:
    """Saves, measures and saves again if another fraction of the training is done; returns whether it did."""
    if training.fraction < len(training.progress.measured) / MEASUREMENTS:
        return False
    if training.progress.step:
        training.save(folder / CHECKPOINT)
    measured = training.measure(lambda: report("measuring on held-out text", min(1.0, training.fraction), ""))
    if training.note(measured):
        training.save_weights(weights_file(folder, measured))
    training.save(folder / CHECKPOINT)
    best = training.progress.best
    for file in folder.glob("best-*.safetensors"):
        if best is not None and file != weights_file(folder, best):
            file.unlink()
    told(measured)
    return True
