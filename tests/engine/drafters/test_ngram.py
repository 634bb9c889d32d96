"""Claims about drafting by looking up: prompt lookup, n-gram hashing, and that neither ever shows in the text."""

from __future__ import annotations

import functools
import itertools
import random
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from engine.decode.decoding import Control, DecodingOptions, decode
from engine.drafters import DraftModel, NGram, NGramMod
from engine.rounds.codec import round_from_json, round_to_json
from engine.target.distribution import OneHot
from engine.types import RULES, DrafterStatistics, Round
from tests.crossings import crossed
from tests.engine.drafting import commit, drafted_after, ids_of, start
from tests.engine.small_models import PROMPT, VOCAB, emitted_ids, greedy_of_mlx_lm, same_up_to_near_ties, tiny_llama

TARGET = tiny_llama(1)
EMPTY = -1


def looked_up(drafter: NGram | NGramMod, limit: int = 64) -> tuple[list[int], DrafterStatistics]:
    """The ids that a drafter proposes next, and what it noted."""
    draft = drafted_after(drafter, [0], limit)
    assert draft.statistics is not None
    return ids_of(draft), draft.statistics


def drafted(drafter: NGram | NGramMod, text: list[int], limit: int = 4) -> list[int]:
    start(drafter, text)
    return looked_up(drafter, limit)[0]


# Prompt lookup


def test_prompt_lookup_proposes_what_followed_the_latest_occurrence():
    assert drafted(NGram(2, 2, worth=0), [1, 2, 3, 9, 1, 2, 4, 8, 1, 2]) == [4, 8, 1, 2]
    assert drafted(NGram(2, 2, worth=0), [1, 2, 3, 4, 5]) == []
    assert drafted(NGram(3, 2, worth=0), [5]) == []


def test_the_longest_match_wins_however_far_back_and_the_latest_among_equals():
    text = [7, 1, 2, 5, 0, 9, 1, 2, 6, 0, 7, 1, 2]
    assert drafted(NGram(2, 2, worth=0), text, 1) == [6]
    assert drafted(NGram(3, 2, worth=0), text, 1) == [5]
    copied = list(range(10, 40))
    distraction = [39, 1] * 20
    assert drafted(NGram(worth=0), [*copied, 77, *distraction, *copied], 1) == [77]


def test_the_match_is_the_one_that_comparing_every_place_finds():
    chance = random.Random(5)
    for _ in range(300):
        text = [chance.randrange(3) for _ in range(chance.randrange(1, 60))]
        longest, shortest = chance.choice([(1, 1), (3, 1), (8, 2), (64, 1), (64, 3)])
        best, after = 0, 0
        for place in range(1, len(text)):
            length = 0
            while length < min(place, longest) and text[place - length - 1] == text[len(text) - length - 1]:
                length += 1
            if length >= shortest and length >= best:
                best, after = length, place
        drafter = NGram(longest, shortest, worth=0)
        wanted = [text[after + index % (len(text) - after)] for index in range(6)] if best else []
        start(drafter, text)
        ids, statistics = looked_up(drafter, 6)
        assert ids == wanted
        assert statistics.match == best


def test_prompt_lookup_sees_what_was_committed_since():
    drafter = NGram(2, 1, worth=0)
    start(drafter, [1, 2])
    assert drafted_after(drafter, [1, 2], 3).tree.size == 0
    commit(drafter, [3, 1])
    proposals = drafted_after(drafter, [1, 2, 3, 1], 3).tree
    assert proposals.drafted.tolist() == [2, 3, 1]
    assert isinstance(proposals.q, OneHot)


def test_a_loop_is_drafted_as_a_loop():
    assert drafted(NGram(worth=0), [9, 1, 2, 3, 1, 2, 3], 8) == [1, 2, 3, 1, 2, 3, 1, 2]
    assert drafted(NGram(worth=0), [5, 5], 3) == [5, 5, 5]


def test_the_longer_the_match_the_longer_the_draft():
    source = list(range(100, 190))
    lengths = [len(drafted(NGram(), [*source, 1, *source[10 - length : 10]], 64)) for length in range(1, 10)]
    assert lengths == sorted(lengths)
    assert 1 <= lengths[0] <= 2 < 4 < lengths[-1] < 64
    assert drafted(NGram(), [*source, 1, *source[:10]], 2) == [110, 111]


def test_prompt_lookup_falls_silent_when_it_is_wrong_and_speaks_again_when_it_would_be_right():
    drafter = NGram()
    start(drafter, [1, 2, 1, 3, 1, 4, 1])
    fresh = itertools.count(100)
    lengths = []
    for _ in range(6):
        lengths.append(len(looked_up(drafter)[0]))
        commit(drafter, [next(fresh), 1])  # never what followed a 1 before
    assert lengths[0] > 0 and lengths[-1] == 0
    lengths = []
    for _ in range(12):
        draft, _ = looked_up(drafter)
        lengths.append(len(draft))
        commit(drafter, [100, 1])  # from the second time on what followed the latest 1, which it learns without proposing
    assert lengths[0] == 0 and lengths[-1] > 0


def test_what_was_learned_of_one_answer_does_not_outlast_it():
    text = [1, 2, 1, 3, 1, 4, 1]
    drafter = NGram()
    first = drafted(drafter, text)
    for token in range(100, 110):
        looked_up(drafter, 4)
        commit(drafter, [token, 1])
    assert drafted(drafter, text) == first != []
    assert drafted(drafter, [50, 51, 100, 101]) == [], "nothing of another conversation"


def test_impossible_options_are_refused():
    with pytest.raises(ValueError, match="shortest"):
        NGram(2, 3)
    with pytest.raises(ValueError, match="worth"):
        NGram(worth=1.5)
    with pytest.raises(ValueError, match="n_min"):
        NGramMod(n_min=9, n_max=8)
    with pytest.raises(ValueError, match="n_match"):
        NGramMod(n_match=0)


# N-gram hashing


class Reference:
    """ngram-mod as its description reads: a table of EMPTY, n-grams folded from scratch, the last token beside the history."""

    def __init__(self, n_match: int, n_min: int, n_max: int, size: int) -> None:
        self.n, self.n_min, self.n_max, self.size = n_match, n_min, n_max, size
        self.reset()

    def reset(self) -> None:
        self.table = np.full(self.size, EMPTY, np.int32)
        self.used = 0

    def slot(self, tokens: list[int]) -> int:
        folded = np.uint64(0)
        with np.errstate(over="ignore"):
            for token in tokens:
                folded = folded * np.uint64(6364136223846793005) + np.uint64(token)
        return int(folded % np.uint64(self.size))

    def add(self, tokens: list[int], following: int) -> None:
        slot = self.slot(tokens)
        self.used += self.table[slot] == EMPTY
        self.table[slot] = following

    def begin(self, prompt: list[int]) -> None:
        self.i_last = self.n_draft_last = self.n_low = 0
        if len(prompt) >= self.n:
            for i in range(len(prompt) - self.n):
                self.add(prompt[i : i + self.n], prompt[i + self.n])
            self.i_last = len(prompt) - self.n
            if self.used / self.size > 0.25:
                self.reset()

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        self.n_draft_last = 0
        if len(history) < self.n:
            return []
        if self.i_last + 32 < len(history):
            for i in range(self.i_last, len(history) - self.n):
                self.add(history[i : i + self.n], history[i + self.n])
            self.i_last = len(history) - self.n
        window = [*history[len(history) - self.n + 1 :], last]
        draft: list[int] = []
        while len(draft) < self.n_max:
            token = int(self.table[self.slot(window)])
            if token == EMPTY:
                break
            draft.append(token)
            window = [*window[1:], token]
        if len(draft) < self.n_min:
            return []
        self.n_draft_last = len(draft[:limit])
        return draft[:limit]

    def accept(self, k: int) -> None:
        if self.n_draft_last:
            self.n_low = self.n_low + 1 if k / self.n_draft_last < 0.25 else 0
            if self.n_low == 5:
                self.reset()
                self.n_low = self.i_last = 0


@pytest.mark.parametrize(
    ("n_match", "n_min", "n_max", "size", "period"),
    [(3, 2, 8, 64, 7), (2, 1, 64, 4096, 5), (1, 1, 4, 31, 3), (5, 4, 16, 1 << 20, 11), (24, 48, 64, 4 << 20, 60)],
)
def test_every_draft_and_every_count_is_that_of_a_plain_reading_of_the_algorithm(n_match, n_min, n_max, size, period):
    chance = random.Random(n_match)
    drafts = resets = 0
    text: list[int] = []
    drafter, reference = NGramMod(n_match, n_min, n_max, size), Reference(n_match, n_min, n_max, size)
    for _ in range(3):  # turns of one conversation
        text += [index % period if chance.random() < 0.995 else chance.randrange(50_000) for index in range(4 * period + 40)]
        assert start(drafter, text)
        reference.begin(text)
        for _ in range(60):
            limit = chance.choice([64, 64, 64, 5])
            draft, statistics = looked_up(drafter, limit)
            assert draft == reference.draft(text[:-1], text[-1], limit)
            assert statistics.entries == reference.used
            k = chance.choice([0, 0, 0, len(draft) // 2, len(draft)]) if draft else 0
            committed = [*draft[:k], chance.choice([text[-period], chance.randrange(50_000)])]
            text += committed
            commit(drafter, committed)
            before = reference.used
            reference.accept(k)
            drafts += bool(draft)
            resets += reference.used < before
    assert drafts > 3, "the case itself"
    if n_match <= 3:
        assert resets > 0, "the case itself"


def test_hashing_fires_only_on_long_repeats():
    passage = list(range(1000, 1100))
    assert drafted(NGramMod(), [*passage, 1, *passage[:24]], 64) == passage[24:88]
    assert drafted(NGramMod(), [*passage, 1, *passage[:23]], 64) == []
    assert drafted(NGramMod(), [*passage[:71], *passage[:24]], 64) == [*passage[24:71], *passage[:17]], "and goes on after it"


@pytest.mark.parametrize(("first", "wanted"), [(10, list(range(1018, 1071))), (20, [])])
def test_a_draft_that_ends_before_n_min_is_dropped(first, wanted):
    """The newest tokens are not in the table yet, so what is found ends where the prompt did."""
    passage = list(range(1000, 1071))
    drafter = NGramMod(n_match=8)
    start(drafter, passage)
    commit(drafter, passage[first : first + 8])
    ids, statistics = looked_up(drafter)
    assert ids == wanted
    assert statistics.hits == len(range(first + 8, 71)) and statistics.misses == 1


def test_five_bad_drafts_in_a_row_empty_the_table_and_the_text_is_read_again():
    passage = list(range(1000, 1100))
    text = [*passage, 1, *passage[:30]]
    drafter = NGramMod(n_match=8, n_min=8)
    start(drafter, text)
    for _ in range(5):
        draft, statistics = looked_up(drafter)
        assert draft[0] == text[text.index(text[-1]) + 1]
        assert statistics.resets == 0
        commit(drafter, [draft[0], draft[1]])
        text += draft[:2]
    draft, statistics = looked_up(drafter)
    assert draft and statistics.resets == 1, "what the prompt holds is found again at once"


def test_a_table_that_is_a_quarter_full_is_emptied_when_an_answer_begins():
    passage = random.Random(1).sample(range(5000), 100)
    assert drafted(NGramMod(4, 4, size=5000), passage + passage[:20]) == passage[20:24]
    drafter = NGramMod(4, 4, size=200)
    start(drafter, passage + passage[:20])
    assert looked_up(drafter, 4) == ([], DrafterStatistics(hits=0, misses=1, match=0, entries=0, capacity=200, resets=1))


def test_a_table_lasts_as_long_as_its_conversation():
    passage = list(range(1000, 1100))
    drafter = NGramMod(8, 8)
    start(drafter, passage)
    looked_up(drafter, 4)
    commit(drafter, [7])
    assert drafted(drafter, [*passage, 7, 8, *passage[:10]]) == passage[10:14]
    assert drafted(drafter, [1, 2, *passage[:10]]) == [], "another one"


# In the loop


def looking_up(name: str) -> NGram | NGramMod:
    """Drafters that propose in nearly every round of a short random text."""
    return {"ngram": NGram(worth=0), "silent": NGram(), "ngram-mod": NGramMod(n_match=1, n_min=1)}[name]


NAMES = ("ngram", "silent", "ngram-mod")


def run(drafter, prompt: list[int] = PROMPT, control: Control | None = None, rounds: int | None = None, **options) -> list[Round]:
    """All rounds of an answer, or the first of them."""
    options = {"temperature": 0.5, "seed": 11, "max_tokens": 60, "gamma": "auto"} | options
    with closing(decode(TARGET, prompt, drafter, DecodingOptions(**options), control=control)) as answer:
        return list(itertools.islice(answer, rounds))


@functools.cache
def plain_ids(max_tokens: int = 60) -> list[int]:
    return emitted_ids(run(None, max_tokens=max_tokens))


@functools.cache
def greedy_ids() -> list[int]:
    return greedy_of_mlx_lm(TARGET, PROMPT, 150)


@pytest.mark.parametrize(("rule", "name"), crossed(RULES, NAMES, together=1))
def test_temperature_0_gives_the_tokens_of_mlx_lm(name, rule):
    rounds = run(looking_up(name), temperature=0, rule=rule, max_tokens=150)
    same_up_to_near_ties(rounds, greedy_ids())
    assert any(current.proposals for current in rounds)


@pytest.mark.parametrize(("rule", "name"), crossed(["match", "gumbel"], NAMES, together=1))
def test_one_seed_gives_one_text(name, rule):
    for gamma in (1, 3, 64, "auto"):
        rounds = run(looking_up(name), rule=rule, gamma=gamma)
        same_up_to_near_ties(rounds, plain_ids())
        assert any(current.proposals for current in rounds)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["ngram", "ngram-mod"])
def test_a_proposal_is_accepted_with_the_targets_probability_under_every_rule(name, rule):
    rounds = run(looking_up(name), list(range(VOCAB)), rule=rule, gamma=1, max_tokens=20)
    judged = [proposal for current in rounds for proposal in current.proposals]
    assert len(judged) > 9
    for proposal in judged:
        assert proposal.q == 1
        assert proposal.acceptance == pytest.approx(proposal.p, abs=1e-5)


@pytest.mark.parametrize("name", ["ngram", "ngram-mod"])
def test_the_drafter_sets_its_length_up_to_64_unless_gamma_is_a_number(name):
    prompt = [*range(20, 90)] * 2
    for gamma, longest in (("auto", 64), (64, 64), (7, 7)):
        drafter = NGram(worth=0) if name == "ngram" else NGramMod()
        (first,) = run(drafter, prompt, rounds=1, gamma=gamma, max_tokens=80)
        assert [proposal.id for proposal in first.proposals] == prompt[:longest]
    assert len(run(looking_up("ngram"), prompt, rounds=1, max_tokens=10)[0].proposals) == 9, (
        "no more than the answer has room for"
    )
    longest = max(len(current.proposals) for current in run(DraftModel(TARGET, "itself"), prompt))
    assert longest <= 8, "an automatic gamma of other drafters is as it was"


class Switching(Control):
    """Changes the drafter before its third and its sixth round."""

    def __init__(self, *drafters) -> None:
        super().__init__()
        self._waiting, self._asked = list(drafters), 0

    def take_changes(self):
        self._asked += 1
        if self._waiting and self._asked % 3 == 0:
            self.update(drafter=self._waiting.pop(0))
        return super().take_changes()


@pytest.mark.parametrize("name", ["ngram", "ngram-mod"])
def test_a_switch_in_mid_answer_knows_the_answer_so_far_and_keeps_the_text(name):
    drafter = looking_up(name)
    rounds = run(None, max_tokens=80, control=Switching(drafter, DraftModel(TARGET, "itself"), drafter))
    same_up_to_near_ties(rounds, plain_ids(80))
    names = [current.drafter for current in rounds]
    assert [key for key, _ in itertools.groupby(names)] == ["none", drafter.name, "itself", drafter.name]
    newest = next(current for current in reversed(rounds) if current.drafter_statistics)
    assert name != "ngram" or newest.drafter_statistics.entries == newest.position, "it has indexed all tokens so far"


@pytest.mark.parametrize("name", ["ngram", "ngram-mod"])
def test_a_second_turn_finds_the_first_and_gives_the_text_of_a_fresh_drafter(name):
    drafter = looking_up(name)
    first = emitted_ids(run(drafter))
    prompt = [*PROMPT, *first, 3, 4, *first[:3]]
    rounds = run(drafter, prompt, gamma=4)
    assert [proposal.id for proposal in rounds[0].proposals][:2] == first[3:5]
    same_up_to_near_ties(rounds, emitted_ids(run(looking_up(name), prompt, gamma=4)))


def test_rounds_carry_what_was_looked_up_there_and_back():
    for name in NAMES:
        rounds = run(looking_up(name))
        for current in rounds:
            found = current.drafter_statistics
            assert round_from_json(round_to_json(current)) == current
            if found is None:
                if name == "ngram-mod":
                    assert not current.proposals, "a drafter that hashes looks nothing up while it rests"
                else:
                    assert current is rounds[-1], "the last token leaves no room for a draft"
                continue
            assert bool(found.match) == bool(found.hits)
            assert not current.proposals or found.hits
            assert (found.capacity is None) == (name != "ngram-mod")
    entries = [current.drafter_statistics.entries for current in rounds if current.drafter_statistics]
    assert entries == sorted(entries) and entries[-1] > 0
    others = [*run(None, max_tokens=5), *run(DraftModel(TARGET, "itself"), max_tokens=5)]
    assert {current.drafter_statistics for current in others} == {None}
    old = round_to_json(others[0])
    del old["drafter_statistics"]
    assert round_from_json(old) == replace(others[0], drafter_statistics=None), "traces from before it was recorded"
