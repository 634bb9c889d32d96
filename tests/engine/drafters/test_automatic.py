"""Claims about auto as a drafter: it uses whichever of its members gains most, says which, and shows in no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from engine.codec import round_from_json, round_to_json
from engine.decode import loop
from engine.decoding import DecodingOptions, decode
from engine.drafters import DraftModel, NGram
from engine.drafters.automatic import Automatic, automatic
from engine.drafters.base import Offer
from engine.lens.outlook_words import weighed
from engine.metrics import summarise, violations
from engine.rounds.draft_length import AutoGamma
from engine.rounds.drafter_choice import DrafterChoice
from engine.types import Round
from tests.engine.rounds.test_draft_length import round_of
from tests.engine.small_models import PROMPT, emitted_ids, ticking_clock, tiny_llama
from tests.engine.test_automatic_length import SIMILAR, Case
from tests.engine.test_distribution_of_text import FALSE_ALARM

TARGET, SMALL = tiny_llama(1), tiny_llama(2, layers=1)
OPTIONS = DecodingOptions(max_tokens=60, gamma="auto", seed=5, analyse=False)


@pytest.fixture(autouse=True)
def steady_clock() -> Iterator[None]:
    with ticking_clock():
        yield


def three() -> Automatic:
    return automatic([NGram(), DraftModel(TARGET, "same"), DraftModel(SMALL, "small")])


# The choice, by a script


class Contest:
    """Rounds with scripted alphas and costs of members that draw, and now and then a copy that is sure."""

    def __init__(self, alphas: Callable[[int], Mapping[str, float]], steps: Mapping[str, float], copies: float = 0.0) -> None:
        self.alphas, self.steps, self.copies = alphas, steps, copies

    def extra(self, name: str) -> Callable[[int], float]:
        return lambda gamma: (0.05 + self.steps.get(name, 0.0)) * gamma

    def run(self, rounds: int, members: Sequence[str] | None = None, seed: int = 3) -> tuple[float, list[str]]:
        """Tokens in the time of a plain round, and who proposed."""
        generator = np.random.default_rng(seed)
        names = list(members or (*self.steps, "copies"))
        lengths = {name: AutoGamma(self.extra(name), draws=name != "copies") for name in names}
        choice = DrafterChoice(lengths, "auto")
        tokens, spent, who = 0, 0.0, []
        for index in range(rounds):
            offers = {name: Offer() for name in names}
            copied = bool(generator.random() < self.copies)
            if copied and "copies" in offers:
                offers["copies"] = Offer((0.95,) * 8)
            name = choice.choose_drafter(offers)
            gamma, alpha = 0, 0.0
            if name == "copies":
                gamma, alpha = 8, 0.95
            elif name is not None:
                gamma, alpha = lengths[name].choose(), self.alphas(index)[name]
            accepted = min(int(generator.geometric(1 - alpha)) - 1, gamma) if gamma else 0
            time = 1 + (self.extra(name)(gamma) if name is not None else 0.0)
            finished = round_of(accepted, gamma, 50 * time * generator.normal(1, 0.05))
            choice.observe(replace_proposer(finished, name))
            tokens, spent = tokens + accepted + 1, spent + time
            who.append(name or "nobody")
        return tokens / spent, who


def replace_proposer(finished: Round, name: str | None) -> Round:
    return replace(finished, proposer=name)


@pytest.mark.parametrize(
    ("alphas", "steps", "best"),
    [
        ({"head": 0.6, "model": 0.7}, {"head": 0.05, "model": 0.4}, "head"),
        ({"head": 0.3, "model": 0.8}, {"head": 0.05, "model": 0.1}, "model"),
        ({"head": 0.05, "model": 0.1}, {"head": 0.3, "model": 0.6}, "nobody"),
    ],
)
@pytest.mark.parametrize("copies", [0.0, 0.25])
def test_it_is_as_fast_as_the_best_member_and_uses_that(
    alphas: Mapping[str, float], steps: Mapping[str, float], best: str, copies: float
) -> None:
    contest = Contest(lambda index: alphas, steps, copies)
    runs = [contest.run(250, seed=seed) for seed in range(6)]
    speed, who = float(np.mean([speed for speed, _ in runs])), [name for _, names in runs for name in names]
    singles = [float(np.mean([contest.run(250, [name], seed)[0] for seed in range(6)])) for name in (*steps, "copies")]
    assert speed > 0.97 * max(*singles, 1.0)
    others = [name for name in who if name != "copies"]
    assert Counter(others).most_common(1)[0][0] == best
    assert abs(who.count("copies") / len(who) - copies) < 0.07
    if copies and best != "nobody":
        assert speed > max(singles), "copies and draws together are faster than either"


@pytest.mark.parametrize(("behind", "first"), [(0, "model"), (400, "head"), (2000, "head")])
def test_a_long_prompt_is_not_read_for_a_little_gain(behind: int, first: str) -> None:
    costs = {"head": 0.1, "model": 0.08}
    lengths = {name: AutoGamma(lambda gamma, step=step: (0.05 + step) * gamma, draws=True) for name, step in costs.items()}
    choice = DrafterChoice(lengths, "auto")
    assert max(lengths, key=lambda name: lengths[name].faster()) == "model"
    chosen = [choice.choose_drafter({"head": Offer(), "model": Offer(behind=behind)})]
    for _ in range(20):
        choice.observe(replace_proposer(round_of(1, 2, 60.0), chosen[-1]))
        chosen.append(choice.choose_drafter({"head": Offer(), "model": Offer(behind=behind)}))
    assert chosen[0] == first
    assert ("model" in chosen) == (not behind)


def test_a_model_that_is_far_better_is_worth_a_long_prompt() -> None:
    known = {"head": 0.2, "model": 0.9}
    lengths = {name: AutoGamma(lambda gamma: 0.1 * gamma, draws=True, alpha=alpha) for name, alpha in known.items()}
    choice = DrafterChoice(lengths, "auto")
    assert choice.choose_drafter({"head": Offer(), "model": Offer(behind=2000)}) == "model"


def test_it_changes_over_when_another_does_better() -> None:
    alphas = ({"head": 0.8, "model": 0.2}, {"head": 0.1, "model": 0.8})
    _, who = Contest(lambda index: alphas[index >= 200], {"head": 0.1, "model": 0.1}).run(500)
    assert Counter(who[100:200]).most_common(1)[0][0] == "head"
    assert Counter(who[350:]).most_common(1)[0] == ("model", who[350:].count("model")) and who[350:].count("model") > 120


# In decoding


@pytest.mark.parametrize("gamma", ["auto", 3])
def test_the_text_is_the_plain_one_wherever_it_depends_on_no_drafter(gamma: Any) -> None:
    for rule, temperature in (("match", 0.8), ("gumbel", 0.8), ("block", 0.0)):
        options = OPTIONS.replace(rule=rule, gamma=gamma, temperature=temperature, max_tokens=40)
        rounds = list(decode(TARGET, PROMPT, three(), options))
        assert emitted_ids(rounds) == emitted_ids(list(decode(TARGET, PROMPT, None, options)))
        assert {round_.drafter for round_ in rounds} == {"auto"}
        assert all((round_.proposer is None) == (not round_.proposals) for round_ in rounds)
        assert not violations(rounds)


def test_rounds_say_who_proposed_and_what_was_weighed() -> None:
    rounds = list(decode(TARGET, PROMPT, three(), OPTIONS.replace(temperature=0.0, max_tokens=120)))
    proposers = {round_.proposer for round_ in rounds if round_.proposals}
    assert len(proposers) > 1 and proposers <= {"ngram", "same", "small"}
    for round_ in rounds:
        assert round_from_json(round_to_json(round_)) == round_
        if round_.proposer == "ngram":
            assert all(proposal.copied for proposal in round_.proposals)
    told = [round_ for round_ in rounds if round_.outlook is not None]
    assert told and all(round_.outlook.drafter in weighed(round_) or round_.outlook.copies for round_ in told)
    assert summarise(rounds).predicted_tau is not None


def test_a_model_that_was_left_behind_catches_up_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked at first and again after it was left behind; being the target, it then proposes what that says."""
    turns = iter([*["same"] * 3, *[None] * 45, *["same"] * 100])
    monkeypatch.setattr(DrafterChoice, "choose_drafter", lambda self, offers: next(turns))
    drafter = three()
    rounds = list(decode(TARGET, PROMPT, drafter, OPTIONS.replace(temperature=0.0, gamma=2, max_tokens=90)))
    asked = [round_ for round_ in rounds if round_.proposals]
    assert len(asked) > 12 and all(round_.accepted == len(round_.proposals) for round_ in asked)
    assert drafter._read["same"] > len(PROMPT)


class Fickle(DrafterChoice):
    """Who drafts depends on the last verdict as much as it can."""

    last: Round | None = None

    def choose_drafter(self, offers: Mapping[str, Offer]) -> str | None:
        rejected = self.last is not None and self.last.rejected
        wanted = ("ngram" if offers["ngram"].chances else None) if rejected else "draft"
        if rejected and self.last is not None and self.last.proposer == "ngram":
            wanted = None
        self._chosen = wanted
        return wanted

    def observe(self, finished: Round, chances: Sequence[float] = ()) -> None:
        self.last = finished
        super().observe(finished, chances)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_the_text_follows_the_target_however_drafters_take_turns(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    single = SIMILAR["draft model"]
    whos: list[str | None] = []

    def make(p: tuple[float, ...], q: tuple[float, ...]) -> tuple[Any, Any]:
        target, drafter = single.make(p, q)
        drafter.name = "draft"
        return target, automatic([NGram(), drafter])

    class Watched(Fickle):
        def observe(self, finished: Round, chances: Sequence[float] = ()) -> None:
            whos.append(finished.proposer)
            super().observe(finished, chances)

    monkeypatch.setattr(loop, "DrafterChoice", Watched)
    case = Case(single.p, (0.4, 0.2, 0.4), make)
    assert case.p_value(case.text(rule)) > FALSE_ALARM
    assert set(whos) == {"ngram", "draft", None} and sum(one != other for one, other in pairwise(whos)) > 60
