"""A replay shows what was recorded: at any place the same as if the answer had grown to it live. No Qt in here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.replay.player import EVEN_SECONDS, SPEEDS, Player, Replay
from app.session.session import Answer, Session
from engine.rounds.metrics import summarise
from engine.rounds.trace import read
from engine.types import DecodingOptions, Round, RoundFinished, RunStarted
from tests.app.fakes import STORY, make_round, story_rounds
from tests.traces import write_trace


def replay_of(path: Path, session: Session | None = None) -> Replay:
    session = session or Session(clock=lambda: 100.0)
    replay = Replay(session, read(path))
    session.show_replay(replay.turns)
    return replay


def same(first: Answer, second: Answer) -> bool:
    return (
        first.text.pieces == second.text.pieces
        and first.text.text == second.text.text
        and first.rounds == second.rounds
        and first.tally.summary == second.tally.summary
        and (first.state, first.finish, first.rules, first.changes, first.cache_length)
        == (second.state, second.finish, second.rules, second.changes, second.cache_length)
    )


def test_a_replay_knows_the_precision_of_its_trace_and_of_an_old_one_that_it_is_unknown(tmp_path: Path) -> None:
    for number, (target, logits) in enumerate([({"logits": "bfloat16"}, "bfloat16"), ({}, None), ({"logits": 7}, None)]):
        path = write_trace(tmp_path / f"{number}.jsonl", story_rounds(), target={"name": "model", **target})
        replay = replay_of(path)
        replay.show(1)
        assert replay.answer.logits == logits


# The player


def timed(*ends: float) -> list[Round]:
    """Rounds that ended after these seconds."""
    return [make_round(index, [], "x", started=0.0, total=1000 * end) for index, end in enumerate(ends)]


def test_rounds_appear_at_their_recorded_times() -> None:
    player = Player(timed(1.0, 1.5, 4.0))
    assert (player.shown, player.is_playing) == (0, False), "a trace opens at its beginning, and waits"
    player.go_to(3)
    player.play()
    assert player.shown == 0, "play at the end starts over"
    assert not player.advance(0.9)
    assert player.advance(0.2) and player.shown == 1
    assert player.advance(0.4) and player.shown == 2
    assert player.seconds == 1.5
    assert player.advance(9.0) and player.shown == 3
    assert not player.is_playing, "and stops at the end"


@pytest.mark.parametrize("speed", SPEEDS)
def test_speed_is_a_factor_on_time(speed: float) -> None:
    player = Player(timed(1.0, 2.0))
    player.speed = speed
    player.play()
    player.advance(0.999 / speed)
    assert player.shown == 0
    player.advance(0.002 / speed)
    assert player.shown == 1


def test_even_steps_take_the_same_time_each() -> None:
    player = Player(timed(0.01, 0.02, 60.0))
    player.set_timing("even")
    player.play()
    for shown in (1, 2, 3):
        assert player.advance(EVEN_SECONDS)
        assert player.shown == shown


def test_another_timing_goes_on_from_the_same_round() -> None:
    player = Player(timed(1.0, 2.0, 3.0))
    player.go_to(1)
    player.play()
    player.set_timing("even")
    assert player.shown == 1
    player.advance(EVEN_SECONDS)
    assert player.shown == 2
    player.set_timing("recorded")
    player.advance(0.5)
    assert player.shown == 2


def test_steps_and_jumps_stay_inside_the_answer() -> None:
    player = Player(timed(1.0, 2.0, 3.0))
    player.play()
    player.step(1)
    assert (player.shown, player.is_playing) == (1, False), "a step pauses"
    player.step(-5)
    assert player.shown == 0
    player.go_to(99)
    assert player.shown == 3
    player.go_to(1)
    player.play()
    player.go_to(2)
    assert player.is_playing, "a jump does not"
    player.advance(0.5)
    assert player.shown == 2, "time goes on from the end of the round that was jumped to"


def test_a_clock_that_ran_backwards_does_not_hold_rounds_back() -> None:
    player = Player(timed(2.0, 1.0, 3.0))
    player.play()
    player.advance(2.0)
    assert player.shown == 2


def test_a_trace_without_rounds_has_nothing_to_play() -> None:
    player = Player([])
    player.play()
    assert not player.is_playing and not player.advance(1.0)
    assert (player.seconds, player.total_seconds) == (0.0, 0.0)


# The replay


def live(count: int, path: Path) -> Answer:
    """The answer as far as it would have been shown live."""
    replay = replay_of(path)
    for shown in range(count + 1):
        replay.show(shown)
    return replay.answer


def test_a_position_looks_the_same_however_it_was_reached(tmp_path: Path) -> None:
    rounds = story_rounds()
    path = write_trace(tmp_path / "story.jsonl", rounds, changes=[{"index": 3, "rule": "match", "gamma": 2, "drafter": "ngram"}])
    replay = replay_of(path)
    for shown in (len(rounds), 5, 4, 0, 7, 3, len(rounds), 1):
        replay.show(shown)
        assert len(replay.answer.rounds) == replay.shown == shown
        assert same(replay.answer, live(shown, path)), shown


def test_a_long_answer_is_rebuilt_from_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.replay.player.SNAPSHOT_INTERVAL", 4)
    rounds = story_rounds(STORY * 3)
    changes = [{"index": index, "rule": rule, "gamma": 4, "drafter": "ngram"} for index, rule in ((4, "match"), (9, "block"))]
    path = write_trace(tmp_path / "story.jsonl", rounds, changes=changes)
    replay = replay_of(path)
    for shown in (len(rounds), 17, 16, 15, 9, 4, 3, 20, 12, 13, len(rounds), 19):
        replay.show(shown)
        assert same(replay.answer, live(shown, path)), shown
        assert list(replay.answer.tally.taus.rows[:, 0]) == list(live(shown, path).tally.taus.rows[:, 0])
    added: list[RoundFinished] = []

    def count(*values: Any) -> RoundFinished:
        added.append(RoundFinished(*values))
        return added[-1]

    monkeypatch.setattr("app.replay.player.RoundFinished", count)
    replay.show(18)
    assert len(added) == 2, "rounds 17 and 18, after the snapshot of 16"


def test_the_whole_replay_is_the_recorded_answer(tmp_path: Path) -> None:
    replay = replay_of(write_trace(tmp_path / "story.jsonl", story_rounds()))
    replay.show(len(replay.trace.rounds))
    answer = replay.answer
    assert answer.text.text == STORY
    assert answer.tally.summary == summarise(story_rounds())
    assert (answer.state, answer.finish, answer.options.seed) == ("finished", "eos", 5)
    assert answer.seconds_to_first_token == 0.75
    assert answer.model == "SmolLM2-135M-Instruct"
    assert replay.turns[-1].prompt == "Tell me a story."


def test_in_the_middle_the_answer_is_still_growing(tmp_path: Path) -> None:
    session = Session()
    replay = replay_of(write_trace(tmp_path / "story.jsonl", story_rounds()), session)
    replay.show(3)
    assert replay.answer.state == "generating" and replay.answer.finish is None
    assert session.running is None, "but the engine is not at work"
    assert session.trace_paths == [str(tmp_path / "story.jsonl")]


def test_the_conversation_is_untouched_and_comes_back(tmp_path: Path) -> None:
    session = Session()
    answer = session.add_turn("mine", DecodingOptions(), "none")
    before = list(session.turns)
    for name in ("b.jsonl", "c.jsonl"):  # a second trace takes the place of the first
        replay = replay_of(write_trace(tmp_path / name, story_rounds()), session)
        replay.show(2)
        assert session.answer is replay.answer
    session.apply(RunStarted(7, replay.answer.options, 1, "none", None))
    session.leave_replay()
    assert session.turns == before and session.answer is answer
    assert not answer.rounds


def test_earlier_messages_are_replayed_too(tmp_path: Path) -> None:
    history = [("system", "Be brief."), ("user", "One?"), ("assistant", "Two."), ("user", "lost"), ("user", "Three?")]
    replay = replay_of(write_trace(tmp_path / "later.jsonl", story_rounds(), "Four?", history=[*history, ("assistant", "3.")]))
    replay.show(1)
    assert [(turn.prompt, turn.answer.text.text) for turn in replay.turns[:-1]] == [("One?", "Two."), ("Three?", "3.")]
    assert replay.turns[-1].prompt == "Four?"


def test_an_answer_that_branches_off_begins_with_what_it_was_given(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "branch.jsonl", story_rounds(" fell asleep."), given={"ids": [4, 5], "text": "The keeper"})
    replay = replay_of(path)
    for shown in (1, 0, len(replay.trace.rounds)):
        replay.show(shown)
        assert replay.answer.text.text.startswith("The keeper")
    assert replay.answer.text.text == "The keeper fell asleep."
    assert replay.answer.prefill == (5, 5)


def test_an_answer_that_was_cut_off_ends_where_it_was_cut(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "cut.jsonl", story_rounds())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    replay = replay_of(path)
    assert replay.trace.missing is not None
    replay.show(99)
    assert 0 < replay.shown == len(replay.answer.rounds) < len(story_rounds())
    assert (replay.answer.state, replay.answer.finish, replay.answer.message) == ("finished", None, "")


def test_an_answer_that_failed_says_why(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "failed.jsonl", story_rounds()[:2], summary={"finish": None, "error": "Out of memory."})
    replay = replay_of(path)
    replay.show(2)
    assert (replay.answer.state, replay.answer.message) == ("failed", "Out of memory.")


def test_a_malformed_header_is_shown_as_far_as_it_is_valid(tmp_path: Path) -> None:
    odd = {"prompt": [1], "target": "x", "drafter": None, "options": {"rule": "coin", "temperature": 0.5, "stop": 7}, "given": 3}
    changes = [{"index": "x"}, {"index": 1, "rule": "match", "gamma": 99, "drafter": "n"}]
    path = write_trace(
        tmp_path / "odd.jsonl", story_rounds(), summary={"finish": "bored", "seconds_to_first_token": "soon"}, **odd
    )
    lines = path.read_bytes().splitlines(keepends=True)
    extra = [json.dumps({"kind": "change", **change}).encode() + b"\n" for change in changes]
    path.write_bytes(b"".join([*lines[:2], *extra, *lines[2:]]))
    replay = replay_of(path)
    replay.show(len(replay.trace.rounds))
    assert replay.answer.text.text == STORY
    assert (replay.answer.options.rule, replay.answer.options.temperature) == ("gumbel", 0.5)
    assert replay.answer.changes == [] and replay.answer.seconds_to_first_token is None


def test_a_trace_without_rounds_shows_its_prompt(tmp_path: Path) -> None:
    replay = replay_of(write_trace(tmp_path / "empty.jsonl", []))
    replay.show(0)
    assert replay.turns[-1].prompt == "Tell me a story."
    assert replay.answer.finish == "cancelled"
