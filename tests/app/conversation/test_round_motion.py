"""A round appears before one's eyes: its verdicts come one after the other, and the text is complete from the first frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.conversation.round_motion import SECONDS, RoundMotion
from app.conversation.screen_reader import plain_text
from app.conversation.token_boxes import fragments_of
from app.look import motion as system
from engine.lens.pieces import Ghosts, Spot
from engine.types import Round
from tests.app.conversation.showing import Conversation, Show
from tests.app.driving import Open, ask, wait_for_answer
from tests.app.fakes import STORY, make_round, story_rounds
from tests.trees import tree_options, tree_rounds

NEWEST = make_round(1, [" last", " lamp"], " on", [" sea", " lit"])
ROUNDS = [make_round(0, [], "The", [" A"]), NEWEST]


class Appearing:
    """A running answer, at times that the test sets."""

    def __init__(self, shown: Conversation, rounds: Sequence[Round], may_move: bool = True) -> None:
        self.now, self.conversation, self.view = 0.0, shown, shown.transcript
        self.view.may_move = may_move
        block = self.view.answer_block(0)
        assert block is not None
        self.block = block
        block.motion = RoundMotion(lambda: self.now)
        self.frame()
        for round_ in rounds:
            self.now += 10
            self.frame()
            self.add(round_)

    def add(self, *rounds: Round) -> None:
        self.conversation.add(rounds, only_rounds=True)

    def frame(self, later: float = 0.0) -> QImage:
        self.now += later
        self.view.sync(only_rounds=True)
        return self.view.grab().toImage()


Begin = Callable[..., Appearing]


@pytest.fixture
def begin(show_conversation: Show) -> Begin:
    """Begins answers with these rounds."""

    def begun(rounds: Sequence[Round], may_move: bool = True, ghosts: Ghosts = "above") -> Appearing:
        return Appearing(show_conversation([], size=(600, 400), ghosts=ghosts, finished=False), rounds, may_move)

    return begun


def contrast(shown: Appearing, picture: QImage, spot: Spot) -> int:
    """The largest difference from the background within the letters of a token and a little above them."""
    (box,) = fragments_of(shown.block.flow, spot, spot)
    area = box.rect.translated(shown.view.corner_of(shown.block)).adjusted(0, -4, 0, -3).toRect()
    back = picture.pixelColor(2, 2).lightness()
    return max(
        abs(picture.pixelColor(x, y).lightness() - back)
        for x in range(area.left(), area.right())
        for y in range(area.top(), area.bottom())
    )


def test_the_text_is_complete_in_every_frame(begin: Begin) -> None:
    for rounds in (ROUNDS, tree_rounds(tree_options("gumbel"))[:4]):
        shown = begin(rounds)
        text = "".join(round_.text for round_ in rounds)
        for _ in range(6):
            shown.frame(SECONDS / 5)
            shown.view.select_all()
            assert shown.view.selected_text().endswith(text)
            assert text in plain_text(shown.view)
            shown.view.selection.select(None, None)


def test_every_token_of_the_text_can_be_read_in_every_frame(begin: Begin) -> None:
    shown = begin(ROUNDS)
    for _ in range(6):
        picture = shown.frame()
        for spot in (Spot(1, False, 0), Spot(1, False, 1), Spot(1, True, 2)):
            assert contrast(shown, picture, spot) > 60
        shown.now += SECONDS / 5


def test_verdicts_appear_one_after_the_other(begin: Begin) -> None:
    shown = begin(ROUNDS)
    spots = [Spot(1, False, at) for at in range(3)]
    counts = []
    for _ in range(12):
        shown.frame()
        counts.append(sum(shown.block.motion.is_judged(spot) for spot in spots))
        shown.now += SECONDS / 11
    assert counts == sorted(counts)
    assert {0, 1, 2, 3} <= set(counts)
    assert not shown.view.is_moving


@pytest.mark.parametrize("ghosts", ["none", "above", "rejected", "all"])
def test_frames_differ_until_the_last_which_is_the_one_without_motion(begin: Begin, ghosts: Ghosts) -> None:
    shown, still = begin(ROUNDS, ghosts=ghosts), begin(ROUNDS, may_move=False, ghosts=ghosts)
    first, middle, last = shown.frame(), shown.frame(SECONDS / 2), shown.frame(SECONDS)
    assert first != middle != last
    assert last == still.frame()
    assert first != still.frame(), "without motion the verdicts are there at once"


def test_what_is_repainted_between_rounds_is_all_that_has_changed(begin: Begin) -> None:
    rounds = story_rounds(STORY * 3, finish=None)
    shown = begin(rounds[:-3])
    shown.add(*rounds[-3:])
    for _ in range(6):
        shown.now += SECONDS / 5
        shown.view.sync(only_rounds=True)
        QApplication.processEvents()
        host = shown.conversation.host
        assert host.screen().grabWindow(host.winId()).toImage() == host.grab().toImage()
        assert shown.block.changed_top > shown.block.flow.height / 2, "only the end"


def test_many_rounds_at_once_and_plain_ones_do_not_move(begin: Begin) -> None:
    shown = begin([])
    shown.add(*story_rounds(STORY * 2, finish=None)[:20])
    assert not shown.view.is_moving
    shown.add(make_round(20, [], " plain"))
    assert not shown.view.is_moving


def test_an_answer_that_ends_stands_still(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(motion="on")
    moved: list[bool] = []
    window.chat.received.connect(lambda _: moved.append(window.transcript.is_moving))
    ask(qtbot, window)
    qtbot.waitUntil(lambda: any(moved))
    wait_for_answer(qtbot, window)
    assert not window.transcript.is_moving
    window.transcript.copy_answer()
    assert window.session.answer is not None and window.session.answer.text.text == STORY


def test_motion_follows_the_setting_and_else_the_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    for reduced in (False, True):
        monkeypatch.setattr(system, "system_reduces_motion", lambda reduced=reduced: reduced)
        follows: Callable[[system.Motion], bool] = system.moves
        assert [follows(setting) for setting in system.MOTIONS] == [not reduced, True, False]


def test_an_answer_does_not_move_if_motion_is_off(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(motion="off")
    moved: list[bool] = []
    window.chat.received.connect(lambda _: moved.append(window.transcript.is_moving))
    ask(qtbot, window)
    qtbot.waitUntil(lambda: len(moved) > 5)
    assert not any(moved)
    wait_for_answer(qtbot, window)
