"""The one interface that every drafter implements, and what a drafter is given to draw with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import mlx.core as mx
import numpy as np

from engine.acceptance import Draft, RoundNoise, likeliest
from engine.host import computes_on_host, on_host
from engine.target.distribution import Distribution, OneHot, Shaper, latest, onto_target_ids
from engine.types import MAX_GAMMA, RATIO_RULES, DrafterStatistics, Rule

Proceed = Callable[[int, int], bool]
"""Called with (tokens read, tokens to read) while a drafter catches up; False cancels."""


def always(done: int, total: int) -> bool:
    """A `Proceed` that never cancels."""
    return True


@dataclass(frozen=True)
class Proposals:
    """What a drafter proposes for one round.

    Attributes:
        tokens: (gamma,) int32 ids of the target's vocabulary, lazy or not.
        q: the distributions the tokens were drawn from, on the target's ids; `OneHot` for a deterministic drafter.
        placed: the places of tokens that were proposed outright among drawn ones; a `OneHot` needs none.
    """

    tokens: mx.array
    q: Draft
    placed: frozenset[int] = frozenset()

    @classmethod
    def copied(cls, ids: list[int], vocab_size: int) -> Proposals | None:
        """Tokens that are proposed outright: the q of each is 1. None without any."""
        if not ids:
            return None
        tokens = mx.array(ids, dtype=mx.int32)
        return cls(tokens, OneHot(tokens, vocab_size))

    @property
    def gamma(self) -> int:
        """How many tokens are proposed, known without evaluating them."""
        return int(self.tokens.shape[0])

    def is_copied(self, index: int) -> bool:
        """Whether a token was proposed outright instead of being drawn."""
        return isinstance(self.q, OneHot) or index in self.placed


@dataclass(frozen=True, slots=True)
class Offer:
    """What one of several drafters could do in the round that begins.

    Attributes:
        chances: of each token that it would propose outright, how likely it is to be right given those before it; empty where it
            would have to draw.
        behind: committed tokens that it has not read.
    """

    chances: tuple[float, ...] = ()
    behind: int = 0


class Chooser(Protocol):
    """What says which of several drafters proposes, by past rounds and by what each has to offer."""

    def choose_drafter(self, offers: Mapping[str, Offer]) -> str | None:
        """Who is to propose; None if nobody."""

    def of(self, name: str) -> Worth | None:
        """What is asked whether that one's proposals pay; None where gamma is fixed."""


class Worth(Protocol):
    """What an automatic gamma says of proposals, by past rounds and by what was drawn in this one."""

    def begins(self) -> bool:
        """Whether a drafter may begin to draw."""

    def goes_on(self, chances: Sequence[float]) -> bool:
        """Whether a further token pays after those to which the drafter gave these chances."""

    def length(self, chances: Sequence[float]) -> int:
        """How many proposals pay of those that are right with these chances, each given those before it."""

    @property
    def most_drawn(self) -> int:
        """The number of tokens that may be drawn in one round; copies are not counted."""


class DraftPen:
    """Draws one round's proposals for a drafter that has logits, and remembers the distributions it drew from.

    The drafter neither knows the rule nor the noise: it asks for a token and goes on from it.

    Args:
        shaper: the same shaping as the target's, so that q answers to the same options as p.
        rule: decides which noise the draws use.
        noise: the round's randomness.
        history: prompt and committed tokens, for penalties.
        vocab_size: width of the target's logits.
        worth: asked whether proposals pay; None where gamma is fixed, so that all do.
        limit: how many tokens will probably be drawn; noise is made for as many at once.
        chooser: says which of several drafters proposes, where there are several; then it says what they are worth, too.

    Attributes:
        places: whether a drafter that could draw may place a token instead.
    """

    places = True

    def __init__(
        self,
        shaper: Shaper,
        rule: Rule,
        noise: RoundNoise,
        history: Sequence[int],
        vocab_size: int,
        worth: Worth | None = None,
        limit: int = 1,
        chooser: Chooser | None = None,
    ) -> None:
        self._limit = limit
        self._chooser = chooser
        self._shaper = shaper
        self._rule = rule
        self._noise = noise
        self._history: Sequence[int] | mx.array = history
        self.vocab_size = vocab_size
        self._worth = worth
        self.chances: list[float] = []
        self._placed: dict[int, float] = {}
        self._rows: list[Distribution] = []
        self._tokens: list[mx.array] = []

    def draw(self, logits: mx.array, target_ids: mx.array | None = None) -> mx.array:
        """Draws the next proposal.

        Args:
            logits: (draft width,) raw logits of the drafter.
            target_ids: (draft width,) for a trimmed head, else None.

        Returns:
            (1,) int32 id of the target's vocabulary, lazy.
        """
        whole = onto_target_ids(logits[None], self.vocab_size, target_ids)
        self._prepare(whole)
        history = self._history
        if self._shaper.penalises and self._tokens:
            recent = latest(history, self._shaper.options.repetition_context)
            history = mx.concatenate([recent, *self._tokens])
        row = self._shaper.shape(whole, history)
        if self._shaper.greedy:
            token = likeliest(row)
        elif self._rule == "gumbel":
            token = self._noise.shared(row, first=len(self._tokens))
        else:
            token = self._noise.draft(row, len(self._tokens))
        token = token.astype(mx.int32)
        self._rows.append(row)
        self._tokens.append(token)
        return token

    def _prepare(self, logits: mx.array) -> None:
        """Where numpy draws: makes what will be needed while the logits are being computed. That is what the verdict takes of the
        row before, for which nobody would have to wait later, and noise. Filters leave too few tokens for noise to pay."""
        if self._shaper.greedy or not computes_on_host():
            return
        mx.async_eval(logits)
        if self._rows and self._rule in RATIO_RULES:
            self._rows[-1].weigh()
        if self._shaper.filters:
            return
        first = len(self._tokens)
        domain: Literal["shared", "draft"] = "shared" if self._rule == "gumbel" else "draft"
        if first == 0 or first >= self._limit:
            self._noise.prepare(domain, first, max(1, self._limit - first), logits, "draft")
        else:
            self._noise.search(domain, first)

    @property
    def is_free(self) -> bool:
        """Whether the length of the draft is left to the drafter: `goes_on` may say no."""
        return self._worth is not None

    @property
    def drawable(self) -> int:
        """The number of tokens that may still be drawn in this round. An automatic gamma bounds it; copies are not counted."""
        if self._worth is None:
            return MAX_GAMMA
        return max(0, self._worth.most_drawn - (len(self._tokens) - len(self._placed)))

    def limit_of(self, drafter: Drafter, limit: int) -> int:
        """Returns the `limit` that a drafter's `propose` gets: at most `drawable`, unless some of its proposals are copies."""
        only_draws = drafter.has_distribution and not isinstance(drafter, Copier)
        return min(limit, self.drawable) if only_draws else limit

    @property
    def inverse_temperature(self) -> float:
        """What `draw` multiplies logits with; 1 at temperature 0."""
        return self._shaper.inverse_temperature

    def place(self, token: int, chance: float) -> mx.array:
        """Proposes a token outright, (1,) int32: its q is 1. `chance` is how likely it seems to be right."""
        placed = mx.array([token], dtype=mx.int32)
        certain = mx.where(mx.arange(self.vocab_size)[None] == token, 0.0, -mx.inf)
        self._rows.append(Distribution(certain, self._shaper.inverse_temperature))
        self._tokens.append(placed)
        self._placed[len(self._tokens) - 1] = chance
        return placed

    def choose_drafter(self, offers: Mapping[str, Offer]) -> str | None:
        """Who of several is to propose; from then on the pen speaks for that one. The first, where nobody weighs them."""
        if self._chooser is None:
            return next(iter(offers))
        chosen = self._chooser.choose_drafter(offers)
        self._worth = None if chosen is None else self._chooser.of(chosen)
        return chosen

    def begins(self) -> bool:
        """Whether to draw at all. Ask before the first draw, with nothing drawn."""
        return self._worth is None or self._worth.begins()

    def length(self, chances: Sequence[float]) -> int | None:
        """How many proposals pay of those that may be proposed outright with these chances to be right; None where gamma is
        fixed, so that nobody weighs that."""
        return None if self._worth is None else self._worth.length(chances)

    @property
    def looks(self) -> bool:
        """Whether a token is evaluated as soon as it is drawn, so that to read it is no further synchronisation."""
        return self._worth is not None or computes_on_host()

    def goes_on(self) -> bool:
        """Whether another token is wanted, up to the limit that `propose` was given. Ask once after each draw but the last.
        It may be a copy: a drafter that copies as well asks `drawable` before it draws.

        Where gamma is automatic this evaluates the token just drawn and looks at the chance the drafter gave it. The answer
        depends on what was drawn and on rounds past, never on a verdict to come, so every rule stays exact.
        """
        if self._worth is None:
            return True
        last = len(self._tokens) - 1
        if last in self._placed:
            self.chances.append(self._placed[last])
        else:
            self.chances.append(float(np.asarray(self._rows[-1].probability_of(self._tokens[-1]))[0]))
        return self._worth.goes_on(self.chances)

    def proposals(self) -> Proposals | None:
        """All that was drawn, or None if nothing was."""
        if not self._tokens:
            return None
        if len(self._placed) == len(self._tokens):
            tokens = mx.concatenate(self._tokens)
            return Proposals(tokens, OneHot(tokens, self.vocab_size))
        known = [ids for token in self._tokens if (ids := on_host(token)) is not None]
        tokens = mx.array(np.concatenate(known)) if len(known) == len(self._tokens) else mx.concatenate(self._tokens)
        return Proposals(tokens, Distribution.joined(self._rows), frozenset(self._placed))


@runtime_checkable
class Drafter(Protocol):
    """Proposes tokens for the target to judge.

    A drafter follows the committed text: `begin` with all of it, `observe` with what each round adds. It may run ahead
    inside `propose`, and has to forget that when `observe` tells what was kept.

    Attributes:
        name: as the user selects it.
        has_distribution: False if its proposals are one-hot, so that every rule judges them alike.

    It may have more, which `sets_own_length` and `statistics_of` look for:
        sets_own_length: True if `propose` knows best how many proposals pay, so that an automatic gamma leaves it to that.
        members: by name, of one that is several.
        statistics: `DrafterStatistics` of the latest `propose`.
        keep_keys_in: called before `begin` with the bits of the target's K/V cache, None for full precision. One with such a
            cache of its own follows, and forgets what it has read if they change.

    One that reads the target's features is a `Listener` too.
    """

    name: str
    has_distribution: bool

    def begin(self, tokens: Sequence[int], proceed: Proceed = always) -> bool:
        """Catches up with the prompt (or, when switched to in mid-answer, all committed tokens).

        Returns whether it got there; False after `proceed` cancelled. May be called again at any time.
        """

    def propose(self, limit: int, pen: DraftPen) -> Proposals | None:
        """At most `limit` (>= 1) proposals to stand after the committed tokens; None for a plain round."""

    def observe(self, tokens: Sequence[int], features: Any = None) -> None:
        """What the round committed: the kept proposals and the target's token, less what a stop cut.

        `features`, for a `Listener` only: (len(tokens), width) of the target's input rows that led to these tokens, lazy.
        """

    def prefetch(self) -> None:
        """May start the first step of the next round on the device while the host reports this one."""

    def finish(self) -> None:
        """The answer has ended: leaves the cache at exactly the committed tokens less the newest."""


@runtime_checkable
class Copier(Protocol):
    """A drafter that may know beforehand what it would propose. One that also draws asks `DraftPen.drawable` before each draw."""

    def copies(self, limit: int) -> Sequence[float]:
        """The chances of at most `limit` tokens that it would copy now; none where it would copy nothing."""


@runtime_checkable
class Listener(Drafter, Protocol):
    """A drafter that reads what the target computes on the way: `decode` hands it the features of all that the target reads."""

    def listen(self, target: Any, tokens: Sequence[int]) -> None:
        """A text is about to be read by this target (as `decode` was given it). Comes before `begin`."""

    def hear(self, start: int, rows: int) -> None:
        """The target has just read `rows` tokens of the text from position `start` on."""

    def take_features(self) -> mx.array:
        """(rows, width) of the target's newest forward pass, lazy."""


def hearing(listener: Listener, proceed: Proceed, first: int = 0) -> Proceed:
    """`proceed`, with each chunk that is read, from position `first` on, told to the listener before."""
    read = 0

    def heard(done: int, total: int) -> bool:
        """The `Proceed` that `hearing` returns: tells the listener of the rows that are new since the last call."""
        nonlocal read
        if done > read:
            listener.hear(first + read, done - read)
            read = done
        return proceed(done, total)

    return heard


def listener_of(drafter: Drafter | None) -> Listener | None:
    """The drafter, if it wants the target's features."""
    return drafter if hasattr(drafter, "take_features") else None  # type: ignore[return-value]


def sets_own_length(drafter: Drafter | None) -> bool:
    """Whether an automatic gamma leaves the number of proposals to the drafter."""
    return bool(getattr(drafter, "sets_own_length", False))


def begin_with(drafter: Drafter, tokens: Sequence[int], kv_bits: int | None, proceed: Proceed) -> bool:
    """`Drafter.begin`, after a drafter with a K/V cache was told how many bits the target's has."""
    if hasattr(drafter, "keep_keys_in"):
        drafter.keep_keys_in(kv_bits)
    return drafter.begin(tokens, proceed)


def statistics_of(drafter: Drafter) -> DrafterStatistics | None:
    """What the drafter noted of its latest `propose`, if it notes anything."""
    return getattr(drafter, "statistics", None)
