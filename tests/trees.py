"""Rounds that drafted trees, decoded with tiny models, for tests of everything that reads rounds."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx

from engine.decode.decoding import decode
from engine.drafters import DraftModel
from engine.types import DecodingOptions, Draw, Emitted, Milliseconds, Proposal, Round, Rule
from engine.values.answers import Status
from tests.engine.small_models import PROMPT, tiny_llama

TREE_RULES: tuple[Rule, ...] = ("match", "rejection", "gumbel")


def tree_options(rule: Rule, seed: int = 1, **changes: object) -> DecodingOptions:
    return DecodingOptions(rule=rule, temperature=0.8, seed=seed, max_tokens=40, gamma=4, budget=8, width=3).replace(**changes)


@functools.cache
def _models() -> tuple[object, object]:
    """A target, and a draft model that agrees with it often enough for accepted choices of every rank."""
    target, draft = tiny_llama(1), tiny_llama(1)
    mx.random.seed(5)
    draft.lm_head.weight = draft.lm_head.weight + 0.35 * mx.random.normal(draft.lm_head.weight.shape)
    mx.eval(draft.parameters())
    return target, draft


@functools.cache
def tree_rounds(options: DecodingOptions) -> tuple[Round, ...]:
    """An answer drafted as trees. The models have no tokenizer, so each token has its number as text."""
    target, draft = _models()
    rounds = tuple(map(_named, decode(target, PROMPT, DraftModel(draft, "builtin-draft"), options)))  # type: ignore[arg-type]
    assert any(current.is_tree for current in rounds)
    return rounds


def _named(current: Round) -> Round:
    def named(token: Any) -> Any:
        text = f" t{token.id}"
        return replace(token, text=text, **({"bytes": text.encode()} if hasattr(token, "bytes") else {}))

    def drawn(draw: Draw | None) -> Draw | None:
        return None if draw is None else named(draw)

    return replace(
        current,
        proposals=tuple(
            replace(
                named(token),
                draft_top=tuple(map(named, token.draft_top)),
                target_top=tuple(map(named, token.target_top)),
                target_draw=drawn(token.target_draw),
            )
            for token in current.proposals
        ),
        emitted=tuple(replace(named(token), target_top=tuple(map(named, token.target_top))) for token in current.emitted),
        text="".join(f" t{token.id}" for token in current.emitted),
    )


def tree_round(*nodes: tuple[int, int, Status], rule: Rule = "gumbel", index: int = 0) -> Round:
    """A round by hand: each proposal with its parent, rank and status. The tokens are " a", " b" and so on."""
    accepted = sum(status == "accepted" for _, _, status in nodes)
    ended: Sequence[str] = [status for _, _, status in nodes if status == "rejected"]
    proposals = tuple(
        Proposal(at, (text := f" {chr(97 + at)}"), text.encode(), status, parent=parent, rank=rank)
        for at, (parent, rank, status) in enumerate(nodes)
    )
    emitted = [Emitted(token.id, token.text, token.bytes, "accepted") for token in proposals[:accepted]]
    emitted.append(Emitted(90, " own", b" own", "correction" if ended else "bonus"))
    return Round(
        index=index,
        position=10,
        drafter="builtin-draft",
        rule=rule,
        proposals=proposals,
        emitted=tuple(emitted),
        expected=(),
        milliseconds=Milliseconds(10.0),
        rows=len(nodes) + 1,
        cache_length=10 + len(emitted),
        text="".join(token.text for token in emitted),
    )


SECOND_CHOICE = tree_round(
    (-1, 1, "accepted"), (0, 0, "rejected"), (-1, 0, "unjudged"), (0, 1, "unjudged"), (2, 0, "unjudged"), (1, 0, "unjudged")
)
"""The second choice was accepted, and after it none of two."""
TO_A_LEAF = tree_round((-1, 0, "accepted"), (-1, 1, "unjudged"), (-1, 2, "unjudged"), index=1)
"""The first of three choices was accepted, and nothing was proposed after it."""
