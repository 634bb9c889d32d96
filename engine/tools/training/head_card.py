"""Model card of a trained head: what it was made from and how, with the actual figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.models.block_config import BlockConfig
from engine.models.head_model import HeadConfig
from engine.tools.training import drafter_training as training
from engine.tools.training import lessons, texts
from engine.tools.training.drafter_training import Plan, TrainingProgress
from engine.tools.training.reading import LABELS
from engine.values.requests.train import HeldOut
from engine.values.wording import amount, noun, size


@dataclass(frozen=True)
class Facts:
    """Everything that a card states.

    Attributes:
        sources: name and SHA-256 of each file of given text.
        written: by temperature, number of records, tokens and answer tokens of text that the target wrote.
        given: number of records and tokens of given text.
        trained, held_out: number of records and tokens of each part.
        coverage: share of held-out answer tokens that the head can propose.
        start: origin of the initial weights.
        ended: why the training ended.
        sharper: factor of the output rows after training; `as_written` was measured with it.
        versions: as `engine.machine.provenance.versions` returns them.
    """

    target: str
    config: HeadConfig | BlockConfig
    columns: int
    sources: Sequence[tuple[str, str]]
    written: Mapping[float, tuple[int, int, int]]
    given: tuple[int, int]
    trained: tuple[int, int]
    held_out: tuple[int, int]
    coverage: float
    plan: Plan
    progress: TrainingProgress
    start: str
    ended: str
    command: str
    device: str
    versions: Mapping[str, str | None]
    sharper: float
    as_written: HeldOut


def count(files: Sequence[Path]) -> tuple[dict[float, tuple[int, int, int]], tuple[int, int]]:
    """Returns `Facts.written` and `Facts.given` for files of text."""
    written: dict[float, tuple[int, int, int]] = {}
    given = 0, 0
    for file in files:
        for record in texts.load(file):
            length = len(record.tokens)
            if file.name.startswith(texts.GIVEN):
                given = given[0] + 1, given[1] + length
            else:
                temperature = round(record.temperature, 3)
                records, tokens, answers = written.get(temperature, (0, 0, 0))
                written[temperature] = records + 1, tokens + length, answers + length - record.prompt_length
    return written, given


def card(facts: Facts) -> str:
    """Returns the card as Markdown."""
    parts = [_title(facts), _text(facts), _head(facts), _training(facts), _measured(facts), _reproduction(facts)]
    return "\n\n".join(parts) + "\n"


def _title(facts: Facts) -> str:
    return (
        f"# A {'block drafter' if isinstance(facts.config, BlockConfig) else 'draft head'} for {facts.target}\n\n"
        "Proposes tokens for one target model, from that model's features. To use it, pass this folder to Draftlight as "
        "`--drafter FOLDER`. It changes only how fast the target writes, never what it writes. It works with no other target: "
        f"the SHA-256 of the target's weights must be\n\n    {facts.config.target_sha256}"
    )


def _text(facts: Facts) -> str:
    lines = ["## Text", ""]
    for temperature, (records, tokens, answers) in sorted(facts.written.items()):
        how = "greedily" if temperature == 0 else f"at temperature {temperature:g}"
        lines.append(
            f"- Written by the target, {how}: {amount(records, 'answer')}, {amount(answers, 'answer token')} ({tokens:,} in all)."
        )
    if facts.given[0]:
        lines.append(f"- Provided text: {amount(facts.given[0], 'record')}, {amount(facts.given[1], 'token')}, from")
        lines += [f"  - `{name}` (SHA-256 {digest})" for name, digest in facts.sources]
    lines += [
        f"- Trained on {amount(facts.trained[0], 'record')} with {amount(facts.trained[1], 'token')}. Held out by hash of prompt "
        f"or document: {amount(facts.held_out[0], 'record')}, {amount(facts.held_out[1], 'token')}; at most "
        f"{training.MAX_HELD_OUT} of them are measured.",
        f"- Labels: the target's {LABELS} most likely tokens at each position, at temperature {1 / lessons.SHARPNESS:g}.",
    ]
    return "\n".join(lines)


def _head(facts: Facts) -> str:
    config = facts.config
    size = config.head_dim if isinstance(config, BlockConfig) else config.head_size
    return "\n".join(
        (
            "## Drafter",
            "",
            f"- Reads the outputs of the target's layers {', '.join(map(str, config.taps))}, counted from 0.",
            f"- Proposes {facts.columns:,} of {config.vocab_size:,} {noun(config.vocab_size, 'token')}, "
            f"{facts.coverage:.1%} of the held-out answer tokens.",
            f"- {_layers(config)}: hidden size {config.hidden_size}, {amount(config.num_attention_heads, 'head')} of {size}, "
            f"{config.num_key_value_heads} for keys and values, feed-forward size {config.intermediate_size}. Stored as float16.",
            f"- Initial weights: {facts.start}.",
        )
    )


def _layers(config: HeadConfig | BlockConfig) -> str:
    if not isinstance(config, BlockConfig):
        return "One layer"
    sees = "each sees those before it" if config.causal[0] else "all see each other"
    if config.paired:
        return (
            f"A head's layer gives the first place, and {config.num_hidden_layers - 1} more fill the others of a block of "
            f"{config.block_size} places from it ({sees}) in one pass; a recurrent Markov head. Layer of the first place and "
            "output rows are the head's, and stay; the embedding is the target's"
        )
    return (
        f"{amount(config.num_hidden_layers, 'layer')} that fill a block of {amount(config.block_size, 'place')} ({sees}) in one "
        "pass, and a Markov head. Output rows and embedding are the target's"
    )


def _learned(facts: Facts) -> str:
    plan = facts.plan
    if not isinstance(facts.config, BlockConfig):
        return (
            f"- Chains of {amount(plan.steps_back, 'step')} that read their own features. Each step has {lessons.DECAY:g} times "
            f"the weight of the one before; positions in prompts have weight {lessons.PROMPT_WEIGHT:g}{_copies(plan)}."
        )
    return (
        f"- Blocks of {amount(plan.steps_back, 'place')} after at most {amount(plan.anchors, 'random token')} of each answer and "
        f"step. The weight of a place falls by e for every {training.LOSS_DECAY_SLOTS:g} before it{_copies(plan)}."
    )


def _training(facts: Facts) -> str:
    plan, progress = facts.plan, facts.progress
    planned = amount(plan.steps, "step") if plan.steps is not None else f"{plan.minutes:g} minutes"
    best = progress.best
    chosen = "" if best is None else f" The weights here are those of step {best.step:,}, the best on held-out text."
    return "\n".join(
        (
            "## Training",
            "",
            f"- {amount(progress.step, 'step')} of at most {amount(plan.batch_tokens, 'padded token')} in "
            f"{progress.seconds / 60:.1f} minutes (planned: {planned}). {facts.ended}{chosen}",
            _learned(facts),
            f"- Loss: cross-entropy with the labels plus {plan.variation:g} times the total variation; {progress.loss:.3f} "
            "at the end (running mean).",
            f"- AdamW, betas {training.BETAS[0]:g} and {training.BETAS[1]:g}, weight decay {training.WEIGHT_DECAY:g}, gradient "
            f"norm at most {training.MAX_GRADIENT_NORM:g}; learning rate {plan.learning_rate:g} after at most {training.WARM_UP} "
            f"steps of warm-up, falling linearly to {training.MIN_RATE_SHARE:.0%} of it. Seed {plan.seed}.",
        )
    )


def _copies(plan: Plan) -> str:
    if plan.copied == 1:
        return ""
    return f", tokens that follow a copy of {lessons.MIN_COPY_LENGTH} or more tokens weight {plan.copied:g}"


def _measured(facts: Facts) -> str:
    lines = [
        "## Held-out acceptance by draft position",
        "",
        "Each draft position is measured separately, with the text itself as the tokens before it. *Agreement*: share of "
        "positions where drafter and target have the same most likely token, which is the acceptance rate at temperature 0. "
        "*Overlap*: mean of the sum of min(p, q) with both at temperature 0.8 and p over its labels, which is the acceptance "
        "rate of `rejection` there.",
        "",
    ]
    progress = facts.progress
    if not progress.measured:
        return "\n".join([*lines, "Nothing was measured."])
    columns = range(1, len(progress.measured[0].agreement) + 1)
    header = ["step", *(f"agreement {column}" for column in columns), *(f"overlap {column}" for column in columns)]
    lines += [f"| {' | '.join(header)} |", "|" + "---:|" * len(header)]
    lines += [_row(measured, measured == progress.best) for measured in progress.measured]
    overlap = ", ".join(f"{share:.3f}" for share in facts.as_written.overlap)
    lines += [
        "",
        f"After training, the logits were multiplied by {facts.sharper:g}, the factor with the largest overlap on held-out "
        f"text: {overlap} by position. This does not change agreement.",
        "",
        f"{amount(progress.measured[0].positions, 'position')} measured at the first draft position.",
    ]
    return "\n".join(lines)


def _row(measured: HeldOut, kept: bool) -> str:
    step = f"{measured.step:,} (kept)" if kept else f"{measured.step:,}"
    return "| " + " | ".join([step, *(f"{value:.3f}" for value in (*measured.agreement, *measured.overlap))]) + " |"


def _reproduction(facts: Facts) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items() if version)
    peak = f" Peak memory held by MLX during training: {size(facts.progress.peak_bytes)}, including the target."
    return f"## How to make it again\n\n    {facts.command or 'unknown command'}\n\non {facts.device}, with {versions}.{peak}"
