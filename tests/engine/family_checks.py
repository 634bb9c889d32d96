"""Checks that every target must pass, whatever memory its layers have; used by tests and by the table of families.

Every check returns None if it passes (texts may differ at a near-tie) and raises otherwise.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.decode.decoding import decode
from engine.drafters import DraftModel, NGram
from engine.drafters.base import Drafter
from engine.serving.model_slots import ConversationCaches
from engine.target import prompt_cache as caches
from engine.types import DecodingOptions, Round
from tests.engine.families import VOCAB, Scripted, tiny, varies
from tests.engine.small_models import PROMPT, emitted_ids, greedy_of_mlx_lm, same_up_to_near_ties, tiny_llama

SCALES = (2.0, 3.0, 1.5, 4.0, 1.0, 6.0, 0.5)
"""What the weights of a tiny model are multiplied with, until its text varies."""
SCRIPTS = ((3, 4), (5, 8), (9, 30))
"""Which proposals are wrong, and gamma."""
SAMPLED = DecodingOptions(temperature=0.8, seed=11, phase_every=0)


class Family:
    """A tiny model of an architecture with the greedy text that mlx-lm gives it.

    Raises:
        AssertionError: no scale of the weights gives a text that varies: equality would prove nothing.
    """

    def __init__(self, name: str, length: int) -> None:
        self.name, self.length = name, length
        for self.scale, self.fill in itertools.product(SCALES, (False, True)):
            self.model = tiny(name, 0, self.scale, self.fill)
            self.greedy = greedy_of_mlx_lm(self.model, PROMPT, length)
            if varies(self.greedy):
                break
        else:
            raise AssertionError(f"the greedy text of a tiny {name} does not vary")

    def sibling(self) -> nn.Module:
        """Another model of the architecture."""
        return tiny(self.name, 1, self.scale, self.fill)

    def rounds(self, drafter: Drafter | None, options: DecodingOptions, length: int = 0) -> list[Round]:
        return list(decode(self.model, PROMPT, drafter, options.replace(max_tokens=length or self.length)))

    def is_greedy(self, drafter: Drafter | None, gamma: int) -> None:
        """The text is mlx-lm's greedy one. With a drafter, proposals were rejected and others accepted."""
        rounds = self.rounds(drafter, DecodingOptions(temperature=0, gamma=gamma, phase_every=0))
        same_up_to_near_ties(rounds, self.greedy)
        assert drafter is None or any(current.rejected for current in rounds), "nothing was rejected"

    def plain(self) -> None:
        self.is_greedy(None, 1)

    def ngram(self) -> None:
        same_up_to_near_ties(self.rounds(NGram(), DecodingOptions(temperature=0, gamma=4, phase_every=0)), self.greedy)

    def scripted(self) -> None:
        for every, gamma in SCRIPTS:
            self.is_greedy(Scripted([*PROMPT, *self.greedy], every), gamma)

    def draft_of_family(self) -> None:
        self.is_greedy(DraftModel(self.sibling()), 2)

    def draft_of_another(self) -> None:
        self.is_greedy(DraftModel(tiny_llama(3)), 2)

    def drafts_for_itself(self) -> None:
        """A drafter whose own cache were rolled back wrongly would propose other tokens than the target, which it is."""
        rounds = self.rounds(DraftModel(self.model), DecodingOptions(temperature=0, gamma=4, phase_every=0))
        if same_up_to_near_ties(rounds, self.greedy):
            assert sum(current.rejected for current in rounds) <= self.length // 50, "it rejects its own tokens"

    def one_text_for_a_seed(self) -> None:
        """At temperature 0.8: without a drafter, under gumbel with gamma 1, and under match with gamma 4."""
        length = self.length // 2
        reference = emitted_ids(self.rounds(None, SAMPLED, length))
        draft = self.sibling()
        for rule, gamma in (("gumbel", 1), ("match", 4)):
            same_up_to_near_ties(self.rounds(DraftModel(draft), SAMPLED.replace(rule=rule, gamma=gamma), length), reference)

    def penalties(self) -> None:
        penal = DecodingOptions(temperature=0, repetition_penalty=1.3, phase_every=0)
        reference = emitted_ids(self.rounds(None, penal))
        for drafter in (NGram(), Scripted([*PROMPT, *reference], 4)):
            same_up_to_near_ties(self.rounds(drafter, penal.replace(gamma=5)), reference)

    def turns(self) -> None:
        """Three turns, the second edited, the edited one regenerated: as if each had been read from scratch."""
        kept = ConversationCaches(Tools())
        drafter = DraftModel(self.sibling())
        options = DecodingOptions(temperature=0, gamma=3, phase_every=0, max_tokens=10)

        def ask(prompt: list[int]) -> tuple[list[int], int]:
            cache = kept.take("one", prompt)
            reused = 0 if cache is None else caches.cache_length(cache) or 0
            cache = caches.make_prompt_cache(self.model) if cache is None else cache
            rounds = list(decode(self.model, prompt, drafter, options, cache=cache))
            text = prompt + emitted_ids(rounds)
            kept.keep("one", cache, text[:-1])
            same_up_to_near_ties(rounds, emitted_ids(list(decode(self.model, prompt, None, options))))
            return text, reused

        first, reused = ask(PROMPT * 5)
        assert reused == 0
        second, reused = ask([*first, 3, 8, 13])
        assert reused == len(first) - 1, f"{reused} of {len(first) - 1} tokens reused by the second turn"
        _, reused = ask([*second, 21, 5])
        assert reused == len(second) - 1, f"{reused} of {len(second) - 1} tokens reused by the third turn"
        edited = [*first, 3, 9, 12, 2]
        _, reused = ask(edited)
        assert len(first) - 1 <= reused <= len(first) + 1, f"{reused} of {len(first) + 1} tokens reused after an edit"
        _, reused = ask(edited)
        assert reused == len(edited) - 1, f"{reused} of {len(edited) - 1} tokens reused when regenerating"

    def cost(self, repeats: int = 12) -> tuple[float, float, float]:
        """Milliseconds, the least of some: a pass over one row, one over five, and one over five of which two are taken back."""
        cache = caches.make_prompt_cache(self.model)
        caches.read_prompt(self.model, cache, PROMPT * 3, lambda done, total: True)
        caches.watch(cache)
        times: tuple[list[float], list[float], list[float]] = ([], [], [])
        for _ in range(repeats):
            for place, (rows, dropped) in enumerate(((1, 0), (5, 0), (5, 2))):
                held = caches.cache_length(cache) or 0
                began = time.perf_counter()
                mx.eval(self.model(mx.array([PROMPT[:rows]]), cache=cache))
                caches.trim_to(cache, held + rows - dropped, "target")
                mx.eval(caches.state_of(cache))
                times[place].append((time.perf_counter() - began) * 1e3)
        return min(times[0]), min(times[1]), min(times[2])


CHECKS: dict[str, Callable[[Family], None]] = {
    "plain": Family.plain,
    "ngram": Family.ngram,
    "scripted": Family.scripted,
    "family": Family.draft_of_family,
    "other": Family.draft_of_another,
    "itself": Family.drafts_for_itself,
    "T 0.8": Family.one_text_for_a_seed,
    "penalty": Family.penalties,
    "turns": Family.turns,
}


CANNOT_HOLD = {
    ("plamo3", "turns"): "in mlx-lm's file, passes over several tokens look one token farther back than single ones, so what a "
    "cache holds depends on how its text was read",
}
"""Checks that an architecture fails by its own definition, with the reason."""


class Tools:
    """As the backend offers them to `ConversationCaches`."""

    def cache_length(self, cache: Sequence[Any]) -> int | None:
        return caches.cache_length(cache)

    def trim(self, cache: Sequence[Any], length: int) -> int:
        return caches.rewind(cache, length, "target")


assert max(PROMPT) < VOCAB
