"""The bars beside the rules: the same positions under every rule, live, in words too, and a way to see a difference."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from app.look import theme as themes
from app.window.rule_bars import rule_bars
from app.window.window import Window
from engine.lens.rule_comparison import MIN_ROUNDS, RuleComparisons, comparison_sentence, difference_sentence, observed_words
from engine.rounds.trace import read
from engine.types import Expected, Round
from tests.app.driving import Open, settle, wait_for_answer
from tests.app.fakes import STORY, make_round, story_rounds
from tests.traces import write_trace


@pytest.fixture
def open_window(share_window: Open) -> Open:
    return partial(share_window, size=(1280, 800))


def answer(qtbot: QtBot, window: Window) -> None:
    window.send("Tell me a story.")
    wait_for_answer(qtbot, window)


def alike(rounds: list[Round]) -> list[Round]:
    """The same rounds, with rules that hardly differ."""
    same = Expected(0.60, 0.61, 0.62)
    return [replace(round_, expected=tuple(same for _ in round_.expected)) for round_ in rounds]


def test_the_bars_show_what_each_rule_accepts(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(story_rounds(STORY * 2), rule="gumbel")
    answer(qtbot, window)
    strip, comparison = window.header.strip, RuleComparisons.of(window.session.turns[0].answer.rounds).newest
    assert comparison is not None
    assert [bar.expected for bar in strip.bars.bars] == [*comparison.expected.values(), None]
    assert [bar.in_force for bar in strip.bars.bars] == [False, True, False, False]
    assert [bar.observed for bar in strip.bars.bars] == [None, comparison.observed, None, None]
    assert strip.shown.about == observed_words(comparison)
    assert strip.finding.text() == difference_sentence(comparison, intervals=False), "one sentence"
    spoken = strip.bars.accessibleDescription()
    assert spoken == f"{comparison_sentence(comparison)} {difference_sentence(comparison)}"
    assert f"{comparison.positions} judged tokens" in spoken and spoken in strip.finding.toolTip()


def test_the_bars_follow_a_change_of_rule_in_mid_answer(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(story_rounds(STORY * 20), rule="gumbel")
    window.send("Tell me a story.")
    bars = window.header.strip.bars
    qtbot.waitUntil(lambda: bars.bars[1].in_force and bars.bars[1].observed is not None)
    qtbot.mouseClick(window.header.rule.buttons["rejection"], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bars.bars[2].in_force and bars.bars[2].gap is None and bars.bars[0].gap is not None)
    assert not bars.bars[1].in_force and bars.bars[1].observed is None
    shown = window.session.turns[0].answer
    found = [comparison for comparison in shown.tally.comparisons.all if comparison.rule == "rejection"]
    assert 0 < found[0].positions < sum(len(round_.expected) for round_ in shown.rounds), "those of Gumbel do not count"
    window.chat.stop()
    qtbot.waitUntil(lambda: window.session.running is None)


def test_under_block_its_own_share_is_shown_without_an_expectation(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(rule="block")
    answer(qtbot, window)
    *others, block = window.header.strip.bars.bars
    assert all(bar.expected is not None and bar.observed is None and not bar.in_force for bar in others)
    rounds = window.session.turns[0].answer.rounds
    judged = sum(len(round_.expected) for round_ in rounds)
    accepted = sum(proposal.status == "accepted" for round_ in rounds for proposal in round_.proposals)
    assert block.in_force and block.expected is None and block.observed == pytest.approx(accepted / judged)
    assert window.header.strip.shown.about.startswith(f"Block accepted {accepted / judged:.0%} of {judged} judged")


@pytest.mark.parametrize(
    "change, said",
    [
        ({"rule": "rejection"}, "Rule Rejection "),
        ({"drafter": "ngram"}, "Drafter N-gram "),
        ({"gamma": 7}, "Gamma 7 "),
        ({"temperature": 0.0}, "Temperature 0 "),
        ({"rule": "block", "temperature": 0.3}, "Rule Block and temperature 0.3 "),
    ],
)
def test_after_an_answer_the_bars_describe_it_and_offer_to_regenerate(
    qtbot: QtBot, open_window: Open, change: dict[str, Any], said: str
) -> None:
    window, engine = open_window(drafter="head", rule="gumbel", gamma=4, temperature=0.8)
    answer(qtbot, window)
    header, strip = window.header, window.header.strip
    given = header.rule_note, strip.bars.bars, strip.shown.about
    assert given[0].startswith("Gumbel: ") and not strip.remedy.isVisible()
    for name, value in change.items():
        window.chat.change(name, value)
    assert (header.rule_note, strip.bars.bars, strip.shown.about) == given
    finding = strip.finding.text()
    assert finding.startswith(said) and strip.shown.full_text.startswith(finding) and strip.shown.full_text != finding
    assert finding in strip.bars.accessibleDescription()
    assert strip.remedy.isVisible() and strip.remedy.text() == "Regenerate"
    seed = window.session.turns[0].answer.options.seed
    qtbot.mouseClick(strip.remedy, Qt.MouseButton.LeftButton)
    wait_for_answer(qtbot, window)
    asked = engine.requests[-1]
    assert asked.options.seed == seed and len(window.session.turns[0].answers) == 2
    assert all((asked.drafter if name == "drafter" else getattr(asked.options, name)) == each for name, each in change.items())
    assert "next answer" not in strip.finding.text() and not strip.remedy.isVisible()
    assert header.rule_note != given[0] or "gamma" in change


def test_a_setting_that_is_reset_is_not_pending(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(rule="gumbel")
    answer(qtbot, window)
    window.chat.change("rule", "match")
    assert "next answer" in window.header.strip.finding.text()
    window.chat.change("rule", "gumbel")
    assert "next answer" not in window.header.strip.finding.text() and not window.header.strip.remedy.isVisible()
    window.chat.change("rule", "match")
    window.chat.new()
    assert window.header.rule_note.startswith("Match: ") and "next answer" not in window.header.strip.finding.text()


def test_few_rounds_show_that_data_is_being_collected(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = MIN_ROUNDS - 2
    window.send("Tell me a story.")
    strip = window.header.strip
    qtbot.waitUntil(lambda: f"Collecting data: {MIN_ROUNDS - 2} of" in strip.finding.text())
    assert all(bar.gap is None for bar in strip.bars.bars), "no interval is drawn from so few"
    engine.pause_after = None
    qtbot.waitUntil(lambda: window.session.running is None)


def test_before_the_first_verdict_the_bars_are_explained_and_nothing_moves(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(temperature=0.8)
    strip = window.header.strip
    assert "how much each rule would accept" in strip.finding.text()
    assert all(bar.expected is None for bar in strip.bars.bars)
    height = window.header.height()
    answer(qtbot, window)
    assert strip.bars.bars[0].expected is not None
    assert window.header.height() == height
    window.chat.new()
    assert strip.bars.bars[0].expected is None and window.header.height() == height
    window.chat.change("drafter", "none")
    qtbot.waitUntil(lambda: "Choose a drafter" in strip.finding.text())


def test_an_answer_without_drafter_says_so(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window([make_round(index, [], " w", drafter="none") for index in range(4)], drafter="none")
    answer(qtbot, window)
    assert "Nothing was judged in this answer" in window.header.strip.finding.text()


def test_a_chat_open_elsewhere_offers_no_regeneration_beside_the_rules(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(alike(story_rounds()), temperature=0.1)
    strip = window.header.strip
    answer(qtbot, window)
    assert strip.remedy.text() == "Show at temperature 0.8"
    window.chat.set_read_only()
    assert not strip.remedy.isVisible()
    window.chat.change("rule", "match")
    assert "next answer" not in strip.finding.text() and not strip.remedy.isVisible()
    assert len(engine.requests) == 1


def test_one_click_regenerates_at_a_temperature_where_the_rules_differ(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(alike(story_rounds()), temperature=0.1)
    strip = window.header.strip
    assert strip.remedy.text() == "Set temperature to 0.8"
    assert "nearly the same; at 0.8" in strip.finding.text()
    answer(qtbot, window)
    assert "at temperature 0.1 each model gives one token nearly all" in strip.finding.text()
    assert strip.remedy.isVisible() and strip.remedy.text() == "Show at temperature 0.8"
    engine.rounds = story_rounds()
    qtbot.mouseClick(strip.remedy, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.session.running is None and len(window.session.turns[0].answers) == 2)
    assert window.settings.temperature == window.header.temperature.value() == 0.8
    assert engine.requests[-1].options.temperature == 0.8 and len(engine.requests) == 2
    assert not strip.remedy.isVisible()


def test_showing_the_rules_apart_stops_and_keeps_a_running_answer(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(alike(story_rounds(STORY * 20)), temperature=0.0)
    window.send("Tell me a story.")
    strip = window.header.strip
    qtbot.waitUntil(lambda: strip.remedy.isVisible() and "Show" in strip.remedy.text())
    first = window.session.turns[0].answer
    assert first.running
    engine.rounds = story_rounds()
    qtbot.mouseClick(strip.remedy, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.session.running is None and len(window.session.turns[0].answers) == 2)
    assert window.session.turns[0].answers[0] is first and first.finish == "cancelled"
    assert engine.requests[-1].options.temperature == 0.8 and len(engine.requests) == 2


def test_without_an_answer_the_button_only_sets_the_temperature(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(temperature=0.0)
    qtbot.mouseClick(window.header.strip.remedy, Qt.MouseButton.LeftButton)
    assert window.settings.temperature == 0.8 and not engine.requests
    assert not window.header.strip.remedy.isVisible()
    assert window.composer.edit.hasFocus(), "and not whatever comes next to the button that has gone"


def test_a_replay_shows_its_own_bars_and_offers_nothing(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    window, _ = open_window()
    rounds = [replace(round_, rule="gumbel" if round_.index < 9 else "rejection") for round_ in alike(story_rounds(STORY * 2))]
    path = write_trace(tmp_path / "switched.jsonl", rounds, options={"rule": "gumbel", "temperature": 0.1})
    window.replay_controller.show(read(path))
    window.replay_controller.go_to(len(rounds))
    strip = window.header.strip
    assert strip.bars.bars[2].in_force and "hardly any difference" in strip.finding.text().lower()
    assert not strip.remedy.isVisible()
    window.replay_controller.go_to(9)
    assert strip.bars.bars[1].in_force, "at this place of the replay Gumbel was in force"
    window.replay_controller.leave()
    assert strip.bars.bars[1].expected is None


@pytest.mark.parametrize(
    "sizes, scale",
    [(((1280, 800), (700, 800), (560, 500)), 1.0), (((1280, 800), (792, 740)), 1.8)],
    ids=["usual text", "large text"],
)
def test_the_bars_are_not_cut_off_in_any_window(
    qtbot: QtBot, open_window: Open, fonts: None, sizes: tuple[tuple[int, int], ...], scale: float
) -> None:
    window, _ = open_window(text_scale=scale, side_panel=False)
    answer(qtbot, window)
    bars, header = window.header.strip.bars, window.header
    for size in sizes:
        window.resize(*size)
        settle()
        assert bars.isVisible() and bars.size() == bars.sizeHint(), size
        assert header.rect().contains(bars.geometry().translated(window.header.strip.mapTo(header, QPoint()))), size
        assert header.width() == window.width() and window.transcript.height() > 0


@pytest.mark.parametrize("size, scale", [((560, 460), 1.0), ((1100, 470), 1.0), ((792, 600), 1.8)])
def test_in_the_lowest_windows_the_bars_take_one_row(
    qtbot: QtBot, open_window: Open, fonts: None, size: tuple[int, int], scale: float
) -> None:
    window, _ = open_window(alike(story_rounds()), size=size, text_scale=scale, side_panel=False, temperature=0.1)
    strip, header = window.header.strip, window.header
    height = header.height()
    answer(qtbot, window)
    assert header.height() == height and strip.height() < 2 * strip.finding.fontMetrics().height() + 8 * scale
    tracks = [strip.bars.track(index) for index in range(3)]
    assert all(one.right() < other.left() and one.y() == other.y() for one, other in pairwise(tracks))
    assert strip.bars.rect().toRectF().contains(tracks[-1]) and window.width() == size[0]
    assert strip.finding.isVisible() == strip.remedy.isVisible() == (size[0] == 1100), "words only where there is room"
    assert window.transcript.height() > 50 * scale
    window.resize(round(1600 * scale), round(900 * scale))
    settled = [strip.bars.track(index) for index in range(3)]
    assert len({track.left() for track in settled}) == 1 and strip.remedy.isVisible()


def test_bars_and_whiskers_are_explained_in_view(qtbot: QtBot, open_window: Open) -> None:
    rounds = [
        replace(round_, proposals=tuple(replace(one, copied=True) for one in round_.proposals)) for round_ in story_rounds()
    ]
    window, _ = open_window([*rounds[:3], *story_rounds(STORY * 2)[3:]])
    answer(qtbot, window)
    strip = window.header.strip
    assert "not counted." in strip.shown.about
    qtbot.mouseClick(strip.help, Qt.MouseButton.LeftButton)
    words = strip.popover.explanation.text()
    for part in (
        window.header.rule_note,
        strip.shown.about,
        strip.shown.full_text,
        "95% intervals",
        "The mark with the triangle",
    ):
        assert part in words
    qtbot.keyClick(strip.popover, Qt.Key.Key_Escape)
    assert not strip.popover.isVisible()


@pytest.mark.parametrize("appearance", ["dark", "light"])
def test_a_bar_is_as_long_as_its_share_and_has_its_rules_colour(qtbot: QtBot, open_window: Open, appearance: str) -> None:
    window, _ = open_window(appearance=appearance, rule="gumbel")
    answer(qtbot, window)
    view = window.header.strip.bars
    theme, picture = themes.resolve(appearance), view.grab().toImage()  # type: ignore[arg-type]
    ratio = picture.devicePixelRatio()
    for index, bar in enumerate(view.bars[:-1]):  # Block has no bar
        assert bar.expected is not None and bar.rule != "block"
        track = view.track(index)
        y = round((track.center().y() + 2) * ratio)  # below the line of the interval
        row = [picture.pixelColor(x, y).name() for x in range(picture.width())]
        colour = QColor(theme.rule(bar.rule)).name()
        last = max(x for x, found in enumerate(row) if found == colour)
        reached = (last / ratio - track.left()) / track.width()
        behind = 0.03 if bar.observed is None else abs(bar.observed - bar.expected) + 0.05  # its mark lies over the end
        assert bar.expected - behind <= reached <= bar.expected + 0.01


def test_rule_bars_cost_no_more_for_a_longer_answer(qtbot: QtBot, open_window: Open) -> None:
    """What is shown comes from sums: the rounds themselves are not read again."""
    window, _ = open_window(story_rounds(STORY * 4))
    answer(qtbot, window)
    shown = window.session.turns[0].answer
    before = rule_bars(window.session, window.settings)
    rounds = list(shown.rounds)
    shown.rounds[:-1] = []
    after = rule_bars(window.session, window.settings)
    shown.rounds[:] = rounds  # before anything is painted: the views rely on the rounds that were counted
    assert after == before


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize(("size", "most"), [((1440, 900), 0.10), ((1600, 1000), 0.10), ((1024, 700), 0.14), ((2560, 1440), 0.10)])
def test_controls_and_bars_leave_the_height_to_the_conversation(
    qtbot: QtBot, open_window: Open, size: tuple[int, int], most: float
) -> None:
    window, _ = open_window(size=size, rule="gumbel", temperature=0.8)
    settle()
    empty = window.header.height()
    answer(qtbot, window)
    assert window.header.height() == empty <= most * size[1]
    assert window.header.strip.finding.isVisible() and window.header.strip.help.isVisible()


@pytest.mark.usefixtures("fonts")
def test_under_block_a_line_through_all_bars_shows_what_happened(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(size=(1600, 1000), rule="block", appearance="light")
    answer(qtbot, window)
    view = window.header.strip.bars
    observed = view.bars[-1].observed
    assert observed is not None and not view.is_flat
    picture, ratio = view.grab().toImage(), view.devicePixelRatio()
    for index in range(3):
        track = view.track(index)
        x, y = track.left() + observed * track.width(), track.center().y() - 4
        assert picture.pixelColor(round(x * ratio), round(y * ratio)).lightness() < 90
    under_gumbel = replace(view.bars[-1], observed=None)
    view.show_bars((*view.bars[:-1], under_gumbel))
    assert view.grab().toImage() != picture
