"""Reads rows of p and q from real contexts: positions in the middle of answers that the pair's target really gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.acceptance import RoundNoise
from engine.decode.decoding import decode
from engine.drafters.base import Drafter
from engine.drafters.draft import DraftContext, DraftPlan
from engine.drafters.sampler import Sampler
from engine.models.loaded import LoadedModel
from engine.noise.source import NoiseSource
from engine.serving.prompt import prompt_ids
from engine.target import prompt_cache as caches
from engine.target.distribution import OneHot, Shaper, onto_target_ids
from engine.types import DecodingOptions, Message
from engine.values.errors import DraftlightError

PROMPTS = (
    "Tell me a short story about a lighthouse keeper and a lost boat.",
    "List five fruits, then list the same five fruits again in the same order.",
    "What should I pack for a rainy weekend in the mountains?",
    "Write a Python function that adds the numbers of a list.",
    "Why do leaves change their colour in autumn?",
)
REPEATED = " one apple, two pears, three plums, four figs, five dates, six limes,"
TIMES = 5
"""Repetitions that give `ngram-mod` enough tokens: it proposes after 24 known tokens if at least 48 follow."""
ANSWERED = 8
"""Answer tokens in a context, so that it is not always the same start of an answer."""
MAX_PROMPTS_READ = 40
"""Answer tokens that are searched for proposals of a drafter that proposes only sometimes."""

Tick = Callable[[], None]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Consecutive positions of one answer, as probabilities over the target's ids.

    Attributes:
        p: (n + 1, vocab) the target's; the last row has no proposal.
        q: (n, vocab) the drafter's; one-hot for a deterministic one.
        unfiltered_q: (n, vocab) the drafter's at the same temperature without the filters.
        one_hot: whether the drafter is deterministic.
        logits: (n + 1, vocab) the target's raw logits.
    """

    p: Floats
    q: Floats
    unfiltered_q: Floats
    one_hot: bool
    logits: mx.array


class _WatchedSampler(Sampler):
    """A sampler that also records the unfiltered rows. It requests full distributions, because they are what is checked."""

    may_place = False

    def __init__(self, plain: Shaper, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._plain = plain
        self.unfiltered: list[mx.array] = []

    def sample(self, logits: mx.array, target_ids: mx.array | None = None) -> mx.array:
        """As in `Sampler`."""
        whole = onto_target_ids(logits[None], self.vocab_size, target_ids)
        self.unfiltered.append(self._plain.shape(whole, []).probabilities)
        return super().sample(logits, target_ids)


def built_in_prompt(target: LoadedModel, index: int) -> list[int]:
    """Returns one of the built-in prompts as token ids, in the model's chat template if it has one."""
    return prompt_ids(target, [Message("user", PROMPTS[index % len(PROMPTS)])])


def continued(target: LoadedModel, index: int) -> list[int]:
    """Returns a built-in prompt as token ids. The first one continues with a repetitive answer, which gives lookup drafters
    something to copy."""
    prompt = built_in_prompt(target, index)
    return prompt if index else prompt + [int(token) for token in target.tokenizer.encode(REPEATED)] * TIMES


def known_ids(target: LoadedModel, vocab_size: int) -> NDArray[np.bool_]:
    """Returns (vocab,): whether the target's tokenizer knows an id; other ids can never be emitted.

    Computed independently of the decode loop, which is under test.
    """
    known = np.zeros(vocab_size, dtype=bool)
    for token, entry in enumerate(target.vocabulary[:vocab_size]):
        known[token] = entry is not None
    return known


def probabilities(scores: Floats) -> Floats:
    """Returns the softmax of (rows, vocab) in float64, implemented independently of the engine."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


class Contexts:
    """Reads rows of one pair with one setting.

    Raises:
        DraftlightError: the target cannot be decoded speculatively at all.
    """

    def __init__(self, target: LoadedModel, drafter: Drafter, options: DecodingOptions, tick: Tick) -> None:
        self._target, self._drafter, self._options, self._tick = target, drafter, options, tick
        self._cache = caches.make_prompt_cache(target.model)
        caches.require_rollback(self._cache, "target")
        self._vocab_size = caches.logits_width(target.model)
        known = mx.array(known_ids(target, self._vocab_size))
        self._shaper = Shaper(options, known)
        self._plain = Shaper(options.replace(top_p=1.0, top_k=0, min_p=0.0), known)

    def read(self, index: int, wanted: int) -> Rows | None:
        """Returns at least `wanted` proposals' rows after the index-th prompt; None if the drafter never proposes.

        If it proposes fewer at a time, rows of several positions are joined; the result may still have fewer.
        """
        prompt = built_in_prompt(self._target, index)
        ready = self._drafter.capabilities.samples
        text = self._text(prompt, ANSWERED if ready else MAX_PROMPTS_READ)
        # Later positions first: the cache can be rolled back to earlier ones.
        starts = [len(text)] if ready else range(len(text), len(prompt), -1)
        parts: list[Rows] = []
        for start in starts:
            rows = self._at(text[:start], wanted)
            if rows is not None:
                parts.append(rows)
            if sum(len(part.q) for part in parts) >= wanted:
                break
        self._drafter.finish()
        return _joined(parts) if parts else None

    def _text(self, prompt: list[int], length: int) -> list[int]:
        caches.rewind(self._cache, 0, "target")
        room = self._target.context_length - len(prompt)
        if room < 2:
            raise DraftlightError(f"The context of {self._target.name} is too short for the built-in prompts.")
        options = DecodingOptions(temperature=self._options.temperature, seed=len(prompt), max_tokens=min(length, room - 1))
        text = list(prompt)
        for current in decode(self._target, prompt, None, options.replace(analyse=False, phase_every=0), cache=self._cache):
            self._tick()
            text += [token.id for token in current.emitted]
        return text

    def _at(self, tokens: Sequence[int], wanted: int) -> Rows | None:
        self._tick()
        noise = RoundNoise(NoiseSource(self._options.seed or 0, self._vocab_size), len(tokens))
        plan = DraftPlan(self._drafter.name, wanted)
        sampler = _WatchedSampler(self._plain, self._shaper, "rejection", noise, tokens, self._vocab_size, plan)
        self._drafter.start(DraftContext(self._target, tokens, len(tokens) - 1))
        self._drafter.estimates(wanted)
        tree = self._drafter.propose(plan, sampler).tree
        if not tree.size:
            return None
        held = caches.rewind(self._cache, len(tokens) - 1, "target")
        caches.read_prompt(self._target.model, self._cache, tokens[held:-1], lambda done, total: True)
        logits = self._target.model(tree.tokens[None], cache=self._cache)[0]
        p = self._shaper.shape(logits, tokens, tree.drafted).probabilities
        q = tree.q.probabilities
        one_hot = isinstance(tree.q, OneHot)
        unfiltered = q if one_hot else mx.concatenate(sampler.unfiltered)
        mx.eval(logits, p, q, unfiltered)
        return Rows(_exact(p), _exact(q), _exact(unfiltered), one_hot, logits)


def _exact(rows: mx.array) -> Floats:
    """Returns the rows in float64, normalised to sum to 1."""
    doubled = np.array(rows, dtype=np.float64)
    return doubled / doubled.sum(axis=-1, keepdims=True)


def _joined(parts: Sequence[Rows]) -> Rows:
    """Concatenates the rows of several positions; the final row, without a proposal, is that of the last one."""
    return Rows(
        p=np.concatenate([*(part.p[:-1] for part in parts), parts[-1].p[-1:]]),
        q=np.concatenate([part.q for part in parts]),
        unfiltered_q=np.concatenate([part.unfiltered_q for part in parts]),
        one_hot=parts[0].one_hot,
        logits=mx.concatenate([part.logits for part in parts]),
    )
