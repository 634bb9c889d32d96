"""Every figure says what it is, with the numbers of the answer it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.look.wording import DEFINITIONS
from app.panel.definitions import CHART_LINES, FORMULAS, define
from app.panel.figure_tiles import NAMES
from app.session.plain_baseline import FEWEST_TOKENS, PLAIN_TOKENS, Baseline, Baselines, plain_request
from app.session.session import Answer, Session
from engine.lens.chart_kinds import CHARTS
from engine.types import DecodingOptions, Message, Request, Round, RunFinished, option_names
from tests.app.conversation.showing import gain
from tests.app.fakes import make_round, story_rounds

CHART_KEYS = [kind.key for kind in CHARTS.values()]
MESSAGES = (Message("user", "Tell me a story."),)


def answered(rounds: Sequence[Round], drafter: str = "builtin-draft") -> tuple[Session, Answer]:
    session = Session(clock=lambda: 0.0)
    answer = session.add_turn("Tell me a story.", DecodingOptions(seed=1), drafter, "SmolLM2 135M")
    answer.request = Request(MESSAGES, answer.options, drafter=drafter)
    gain(answer, rounds)
    answer.state = "finished"
    return session, answer


def finished(tokens: int, seconds: float) -> RunFinished:
    return RunFinished(1, "eos", "", tokens, seconds, 0.1, 0.2, None)


def test_every_tile_and_every_chart_has_a_definition() -> None:
    for key in (*NAMES, *CHART_KEYS, "first_token"):
        assert define(key, None).explanation
    assert CHARTS.keys() == CHART_LINES.keys(), "each chart has lines with the numbers of the answer"


@pytest.mark.parametrize("key", [*FORMULAS, *CHART_KEYS])
def test_a_definition_has_numbers_before_after_and_without_proposals(key: str) -> None:
    assert define(key, None).numbers == ("Nothing has been decoded yet.",)
    for rounds in (story_rounds(), [make_round(0, [], "a")], story_rounds(rule="block")):
        assert define(key, answered(rounds)[1]).numbers


def test_alpha_shows_numerator_denominator_and_unjudged() -> None:
    _, answer = answered(story_rounds())
    summary = answer.tally.summary
    here = " ".join(define("alpha", answer).numbers)
    assert f"{summary.accepted} / ({summary.accepted} + {summary.rejected}) = {summary.alpha:.3f}" in here
    assert f"{summary.unjudged} unjudged" in here


def test_under_block_tau_says_that_nothing_is_predicted() -> None:
    _, answer = answered(story_rounds(rule="block"))
    definition = define("tau", answer)
    assert definition.explanation == DEFINITIONS["tau_block"]
    assert "predicted" not in " ".join(definition.numbers)


def test_a_speed_up_needs_a_measured_plain_run() -> None:
    _, answer = answered(story_rounds())
    assert "measured" in define("speed_up", answer).numbers[0]
    here = define("speed_up", answer, Baseline(10.0, 32)).numbers
    assert here[0].startswith(f"{answer.tokens_per_second:.1f} / 10.0")
    assert "32 tokens on this prompt" in here[1]


def test_no_speed_up_is_computed_from_another_prompt() -> None:
    _, answer = answered(story_rounds())
    here = define("speed_up", answer, Baseline(10.0, 32, fits=False)).numbers
    assert len(here) == 1
    assert "no speed-up is shown" in here[0]


def test_a_plain_answer_becomes_the_baseline_of_its_prompt() -> None:
    session, answer = answered([make_round(index, [], "a", started=60.0 * index) for index in range(20)], drafter="none")
    answer.run_id, answer.state = 1, "generating"
    session.apply(finished(20, 2.0))
    assert session.baseline(answer) is None, "a plain answer is not compared with itself"
    _, drafted = answered(story_rounds())
    assert session.baseline(drafted) == Baseline(10.0, 20)


ASKED = Request(MESSAGES, DecodingOptions(seed=7), target="small", drafter="head", conversation="window-1")


def test_a_plain_run_of_another_target_is_no_baseline() -> None:
    known = Baselines()
    known.add(ASKED, finished(32, 2.0))
    assert known.of(ASKED) == Baseline(16.0, 32)
    assert known.of(replace(ASKED, target="large")) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, messages=(Message("user", "Something else"),)),
        replace(ASKED, messages=(Message("system", "Be brief."), *MESSAGES)),
        replace(ASKED, messages=(Message("user", "Hello"), Message("assistant", "Hi"), *MESSAGES)),
        replace(ASKED, given=(4, 5)),
        replace(ASKED, template=False),
        *(
            replace(ASKED, options=ASKED.options.replace(**{name: value}))
            for name, value in {
                "temperature": 0.0,
                "top_p": 0.9,
                "top_k": 40,
                "min_p": 0.05,
                "repetition_penalty": 1.1,
                "repetition_context": 64,
                "max_tokens": 64,
                "stop": ("END",),
                "kv_bits": 8,
                "analyse": False,
                "phase_every": 0,
            }.items()
        ),
    ],
)
def test_a_plain_run_of_another_question_gives_no_speed_up(other: Request) -> None:
    """Divided by it, an answer's throughput would be a comparison of prompts, filters or lengths."""
    known = Baselines()
    known.add(ASKED, finished(32, 2.0))
    found = known.of(other)
    assert found == Baseline(16.0, 32, fits=False)
    known.add(other, finished(32, 1.0))
    assert known.of(other) == Baseline(32.0, 32) and known.of(ASKED) == Baseline(16.0, 32)


def test_every_option_changes_the_baseline_key_or_not_the_plain_run() -> None:
    """An option that is added later has to be decided on here."""
    known = Baselines()
    known.add(ASKED, finished(32, 2.0))
    for changes in ({"rule": "block"}, {"gamma": 7}, {"gamma": "auto"}, {"budget": 8}, {"width": 2}, {"seed": 8}, {"seed": None}):
        found = known.of(
            replace(ASKED, options=ASKED.options.replace(**changes), drafter="ngram", conversation="window-2", kept=False)
        )
        assert found is not None and found.fits
    decided = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "repetition_context", "max_tokens", "stop"}
    decided.add("kv_bits")
    assert set(option_names()) == decided | {"analyse", "phase_every", "rule", "gamma", "budget", "width", "seed"}


def test_a_run_too_short_to_measure_is_no_baseline() -> None:
    known = Baselines()
    assert known.add(ASKED, finished(FEWEST_TOKENS - 1, 1.0)) is None
    assert known.add(ASKED, finished(FEWEST_TOKENS, 0.0)) is None
    assert known.of(ASKED) is None


def test_the_plain_run_is_the_same_request_without_drafter_outside_the_conversation() -> None:
    request = Request(MESSAGES, DecodingOptions(seed=7, stop=("x",)), drafter="builtin-draft", conversation="window-1")
    plain = plain_request(request)
    assert (plain.drafter, plain.conversation, plain.options.max_tokens) == ("none", "", PLAIN_TOKENS)
    assert not plain.kept, "no chat is made of its trace"
    assert plain.messages == request.messages and plain.options.seed == 7
    branched = plain_request(replace(request, given=(4, 5, 6)))
    assert branched.given == (4, 5, 6) and branched.options.max_tokens == 3 + PLAIN_TOKENS, "given tokens count for the length"


def test_the_popover_holds_the_whole_definition_inside_the_screen(qtbot: QtBot) -> None:
    from PySide6.QtCore import QPoint
    from PySide6.QtWidgets import QLabel, QWidget

    from app.look.theme import DARK
    from app.panel.explainer import DefinitionPopover

    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    popover = DefinitionPopover(window)
    popover.set_look(DARK, 1.0)
    pressed: list[bool] = []
    _, answer = answered(story_rounds())
    popover.show_definition(define("throughput", answer), QPoint(99_999, 99_999), ("Measure", lambda: pressed.append(True)))
    assert window.screen().availableGeometry().contains(popover.geometry())
    for label in popover.findChildren(QLabel):
        assert label.isHidden() or label.height() >= label.heightForWidth(label.width())
    assert "tokens/s" in popover.accessibleDescription()
    popover.action.click()
    assert pressed == [True] and not popover.isVisible()


def test_the_time_of_a_split_target_names_what_was_communication() -> None:
    rounds = [make_round(0, [], "a", staged=True, total=50.0), make_round(1, [], "b")]
    key = CHARTS["times"].key
    assert "communication" not in " ".join(define(key, answered(rounds)[1]).numbers), "one machine has none"
    split = replace(rounds[0], milliseconds=replace(rounds[0].milliseconds, communication=20.0))
    assert "40% of the time, in verify, was communication" in " ".join(define(key, answered([split, rounds[1]])[1]).numbers)
