"""Claims about gamma auto: it finds the length that pays at the acceptance and the times it sees, roll-backs included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine import clock
from engine.decode.context import DecodeContext
from engine.decode.loop import DecodeLoop
from engine.rounds import draft_length
from engine.rounds.draft_length import DECAY, LARGEST_AUTO, AutoGamma
from engine.target.prompt_cache import make_prompt_cache
from engine.target.recurrent_cache import RecurrentCache
from engine.types import DecodingOptions, Emitted, Milliseconds, Proposal, Round
from tests.engine.families import VOCAB, Scripted
from tests.engine.family_checks import Family
from tests.engine.small_models import PROMPT, emitted_ids, same_up_to_near_ties

GAMMAS = range(1, LARGEST_AUTO + 1)


def round_of(accepted: int, gamma: int, milliseconds: float) -> Round:
    statuses = ["accepted"] * accepted + ["rejected"] * (accepted < gamma) + ["unjudged"] * max(0, gamma - accepted - 1)
    return Round(
        index=0,
        position=0,
        drafter="d",
        rule="gumbel",
        proposals=tuple(Proposal(0, "", b"", status) for status in statuses),
        emitted=(Emitted(0, "", b"", "correction"),) * (accepted + 1),
        expected=(),
        milliseconds=Milliseconds(milliseconds),
        rows=gamma + 1,
        cache_length=0,
    )


@dataclass(frozen=True)
class Costs:
    """How often a proposal is accepted, and the milliseconds of a plain round, of one more proposal, and of taking tokens back,
    which the round after pays."""

    alpha: float
    plain: float
    step: float
    back: float = 0.0

    def rate(self, gamma: int, rounds: int = 50_000) -> float:
        """Tokens per millisecond with a fixed gamma, from so many rounds drawn at random."""
        accepted = np.minimum(np.random.default_rng(4).geometric(1 - self.alpha, rounds) - 1, gamma)
        spent = self.plain + self.step * gamma + self.back * (accepted < gamma)
        return float((accepted + 1).sum() / spent.sum())

    @property
    def best(self) -> int:
        """The gamma of the highest rate."""
        return max(GAMMAS, key=self.rate)

    def learned(self, seed: int = 3) -> AutoGamma:
        """Gamma auto after 400 rounds that it chose the length of."""
        generator = np.random.default_rng(seed)
        gamma, took_back = AutoGamma(), False
        for _ in range(400):
            chosen = gamma.choose()
            accepted = min(int(generator.geometric(1 - self.alpha)) - 1, chosen)
            spent = self.plain + self.step * chosen + self.back * took_back + generator.normal(0, 1)
            gamma.observe(round_of(accepted, chosen, spent))
            took_back = accepted < chosen
        return gamma


@pytest.mark.parametrize(
    ("family", "wanted"),
    [
        (Costs(0.9, 50, 3), {7, 8}),
        (Costs(0.3, 50, 15), {1}),
        (Costs(0.6, 50, 5), {3, 4}),
        (Costs(0.05, 50, 1), {1}),
        (Costs(0.6, 50, 5, back=100), {1}),
        (Costs(0.7, 50, 3, back=100), {2}),
    ],
)
def test_auto_gamma_finds_the_best_length_for_acceptance_and_cost(family: Costs, wanted: set[int]) -> None:
    assert family.best in wanted, "the case itself"
    assert family.rate(family.learned().choose()) > 0.93 * family.rate(family.best)


def test_auto_gamma_that_does_not_count_roll_backs_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_length, "BACK_WEIGHT", 1e12)  # certain that they cost nothing
    monkeypatch.setattr(draft_length, "LITTLE_FASTER", 0.0)  # a look at plain rounds shows that these are better still
    family = Costs(0.6, 50, 5, back=100)
    assert family.rate(family.learned().choose()) < 0.93 * family.rate(family.best)


@pytest.mark.parametrize("back", [0, 100])
def test_after_each_token_too_it_stops_sooner_where_taking_back_is_dear(back: float) -> None:
    """A third proposal, accepted in 60 of 100 cases, is worth 5 ms, but not 5 ms and 100 in the other 40."""
    learned = Costs(0.6, 50, 5, back).learned()
    assert learned.goes_on([0.97, 0.97]) == (back == 0)
    assert not learned.goes_on([0.3, 0.1])


def test_auto_gamma_goes_on_while_the_drafter_is_sure_and_stops_when_it_is_not() -> None:
    gamma = AutoGamma()
    assert gamma.goes_on([0.99, 0.98])
    assert not gamma.goes_on([0.5, 0.06])
    assert not gamma.goes_on([0.9] * 30), "chains have an end"


def test_auto_gamma_never_takes_a_proposal_to_cost_nothing() -> None:
    gamma = AutoGamma()
    for proposals, milliseconds in ((1, 90.0), (3, 60.0), (1, 95.0), (4, 50.0), (2, 80.0), (5, 45.0)):
        gamma.observe(round_of(0, proposals, milliseconds))
    assert not gamma.goes_on([0.3, 0.3])


@pytest.mark.parametrize(("accepted", "gamma"), [(2, 8), (0, 4), (1, 2), (3, 3)])
def test_alpha_is_the_share_of_judged_proposals(accepted: int, gamma: int) -> None:
    """By the closed form; two of four accepted are supposed beforehand. Unjudged proposals say nothing."""
    auto, rounds = AutoGamma(draws=True), 30
    for _ in range(rounds):
        auto.observe(round_of(accepted, gamma, 60.0))
    prior, seen = DECAY**rounds, (1 - DECAY**rounds) / (1 - DECAY)
    rejected = min(1, gamma - accepted)
    assert auto.alpha == pytest.approx((2 * prior + accepted * seen) / (4 * prior + (accepted + rejected) * seen))


def test_unjudged_proposals_say_nothing_of_what_a_chance_is_worth() -> None:
    """A drafter that gave 0.95 to each of eight was right with the first and wrong with the second: that is one of two."""
    chances = [0.95] * 8
    whole, judged = AutoGamma(draws=True), AutoGamma(draws=True)
    for _ in range(30):
        whole.observe(round_of(1, 8, 60.0), chances)
        judged.observe(round_of(1, 8, 60.0), chances[:2])
    drafts = [[0.95] * length for length in range(1, 9)]
    assert [whole.goes_on(draft) for draft in drafts] == [judged.goes_on(draft) for draft in drafts]
    assert whole._classes == judged._classes


class OnAClock:
    """A model whose passes take scripted time: 20 ms, 2 for each row, and what layers that read again owe."""

    def __init__(self, model: Any) -> None:
        self._model, self.now, self.owed = model, 0.0, 0.0

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        self.now += 0.020 + 0.002 * tokens.shape[1] + self.owed
        self.owed = 0.0
        return self._model(tokens, cache=cache)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


@pytest.fixture(scope="module")
def recurrent() -> Family:
    return Family("lfm2", 250)


def mean_gamma(family: Family, milliseconds: float, monkeypatch: pytest.MonkeyPatch) -> float:
    """Proposals a round, once it has learned, where taking tokens back takes so long.

    The drafter is wrong at two tokens of five. A replay is lazy: the next pass takes its time. Where last bits lead the text
    elsewhere, the drafter would be wrong from there on: it then gets that text.
    """
    target = OnAClock(family.model)

    class OfTarget(clock.Clock):
        def __call__(self) -> float:
            return target.now - self._away

    layers = sum(isinstance(layer, RecurrentCache) for layer in make_prompt_cache(family.model))
    wrong = np.random.default_rng(5).random(len(PROMPT) + family.length) < 0.4
    wanted = family.greedy
    with monkeypatch.context() as patch:
        sound = RecurrentCache._read_again

        def dear(cache: RecurrentCache, *arguments: Any) -> None:
            target.owed += milliseconds / 1e3 / layers
            sound(cache, *arguments)

        patch.setattr(RecurrentCache, "_read_again", dear)
        options = DecodingOptions(temperature=0, gamma="auto", max_tokens=family.length, phase_every=0)
        for _ in range(5):
            text = [(token + bool(flip)) % VOCAB for token, flip in zip([*PROMPT, *wanted], wrong, strict=True)]
            context = DecodeContext(target, PROMPT, Scripted(text, len(text)), options, clock=OfTarget())
            rounds = list(DecodeLoop(context).rounds())
            if same_up_to_near_ties(rounds, wanted):
                return float(np.mean([len(current.proposals) for current in rounds[len(rounds) // 2 : -1]]))
            wanted = emitted_ids(rounds)
    raise AssertionError("every text is another one")


def test_decoding_tells_it_what_the_replay_of_recurrent_layers_costs(recurrent: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    free, dear = mean_gamma(recurrent, 0, monkeypatch), mean_gamma(recurrent, 60, monkeypatch)
    assert dear < free - 1
    for weight in ("BACK_WEIGHT", "FIRST_WEIGHT"):  # nor may it be taken for a price of every draft
        monkeypatch.setattr(draft_length, weight, 1e12)
    assert mean_gamma(recurrent, 60, monkeypatch) > free - 1, "this test would not notice that it is not counted"
