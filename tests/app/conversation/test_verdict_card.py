"""Pointing at tokens by mouse and key, the card that tells their verdict, and the branches that grow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QAccessible, QColor, QKeyEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from app.conversation import screen_reader
from app.conversation.message_tools import SiblingSwitch
from app.conversation.screen_reader import plain_text
from app.conversation.verdict_card import VerdictCard
from app.conversation.verdict_charts import CardLook, ScoreChart
from app.conversation.verdict_host import corner
from app.look.placing import visible_part
from app.look.theme import DARK, LIGHT, Theme
from app.session.cursor import Place
from app.session.session import Answer
from app.session.token_navigation import neighbour, place_of, spot_of
from app.verdict.verdict import judge
from app.window.window import Window
from engine.lens.pieces import Ghosts, Spot, visible
from engine.types import Candidate, Round, Rule, RunFailed
from tests.app.driving import wait_for_answer
from tests.app.fakes import STORY, FakeEngine, story_rounds
from tests.trees import tree_options, tree_rounds

Open = Callable[..., tuple[Window, FakeEngine]]


def told_rounds() -> list[Round]:
    """The story's rounds; each proposal has alternatives on both sides, and ids that tell tokens apart."""
    rounds = []
    for round_ in story_rounds():
        base = 100 * (round_.index + 1)
        proposals = tuple(
            replace(
                proposal,
                id=base + place,
                target_top=()
                if proposal.status == "unjudged"
                else (
                    Candidate(base + place, proposal.text, 0.5),
                    Candidate(base + 50 + place, " gull", 0.3),
                    Candidate(7, " end", 0.1),
                ),
                draft_top=() if proposal.status == "unjudged" else (Candidate(base + place, proposal.text, 0.6),),
            )
            for place, proposal in enumerate(round_.proposals)
        )
        emitted = tuple(
            replace(token, id=base + place if token.origin == "accepted" else base + 90)
            for place, token in enumerate(round_.emitted)
        )
        rounds.append(replace(round_, proposals=proposals, emitted=emitted))
    return rounds


@pytest.fixture
def open_window(qtbot: QtBot, show_window: Callable[..., Window]) -> Open:
    """Opens windows with a whole answer in them."""

    def opened(size: tuple[int, int] = (1440, 900), **settings: Any) -> tuple[Window, FakeEngine]:
        engine = FakeEngine(told_rounds())
        window = show_window(engine, size=size, **settings)
        window.send("Tell me a story.")
        wait_for_answer(qtbot, window)
        return window, engine

    return opened


def middle(window: Window, place: Place) -> QPoint:
    """A point of the viewport on a token."""
    return window.transcript.pointing.boxes(place)[0].center().toPoint()


def hover(qtbot: QtBot, window: Window, place: Place) -> None:
    qtbot.mouseMove(window.transcript.viewport(), QPoint(1, 1))  # Qt tells nothing of a pointer that was there already
    qtbot.mouseMove(window.transcript.viewport(), middle(window, place))


def click(qtbot: QtBot, window: Window, place: Place) -> None:
    qtbot.mouseClick(window.transcript.viewport(), Qt.MouseButton.LeftButton, pos=middle(window, place))


def ghost(window: Window, round_: int = 1) -> Place:
    """The rejected proposal of a round."""
    return Place(0, round_, proposal=window.session.turns[0].answer.rounds[round_].accepted)


def shown(window: Window) -> str:
    verdict = window.verdicts.card.verdict
    return "" if verdict is None or window.verdicts.card.isHidden() else verdict.token


def test_the_pointer_points_the_cursor_and_the_card_follows_after_a_moment(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    place = ghost(window)
    seen: list[Place | None] = []
    window.cursor_place.moved.connect(seen.append)
    hover(qtbot, window, place)
    assert seen[-1] == place
    assert window.verdicts.card.isHidden(), "not at once"
    qtbot.waitUntil(window.verdicts.card.isVisible)
    assert "·" in shown(window)
    assert window.verdicts.card.testAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents), "the text stays in reach"
    qtbot.mouseMove(window.transcript.viewport(), QPoint(3, window.transcript.viewport().height() - 3))
    assert seen[-1] is None
    qtbot.waitUntil(window.verdicts.card.isHidden)


@pytest.mark.parametrize("size", [(1440, 900), (900, 560)])
@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_the_card_stays_in_the_window_and_off_its_token(
    qtbot: QtBot, open_window: Open, size: tuple[int, int], scale: float
) -> None:
    window, _ = open_window(size, text_scale=scale)
    turns = window.session.turns
    place: Place | None = neighbour(turns, Place(0, -1), 1, frozenset())
    while place is not None:
        window.transcript.pointing.go(place)
        card = window.verdicts.card
        assert card.isVisible()
        assert window.rect().contains(card.geometry())
        area = window.transcript.pointing.area(place)
        token = QRect(window.transcript.viewport().mapTo(window, area.topLeft()), area.size())
        if card.height() < min(window.height(), window.screen().availableGeometry().height()) / 2:
            assert not card.geometry().intersects(token)
        place = neighbour(turns, place, 1, frozenset(), rounds=True)


def test_a_pinned_card_stays_inside_a_window_that_shrinks(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    click(qtbot, window, ghost(window))
    window.resize(700, 520)
    qtbot.waitUntil(lambda: window.rect().contains(window.verdicts.card.geometry()))
    assert window.verdicts.card.isVisible()


def test_a_pinned_card_goes_and_comes_with_the_conversation(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    click(qtbot, window, ghost(window))
    window.transcript.hide()
    assert window.verdicts.card.isHidden()
    window.transcript.show()
    assert window.verdicts.card.isVisible()


def test_a_card_finds_the_side_with_room() -> None:
    room, size = QRect(0, 0, 1000, 800), QSize(300, 300)
    for anchor, side in (
        (QRect(500, 100, 40, 20), "below"),
        (QRect(500, 700, 40, 20), "above"),
        (QRect(10, 10, 40, 20), "below"),
    ):
        placed = QRect(corner(room, anchor, size, [anchor]), size)
        assert room.contains(placed)
        assert not placed.intersects(anchor)
        assert (placed.top() > anchor.bottom()) == (side == "below")
    tall = QSize(300, 700)
    beside = QRect(corner(room, QRect(500, 400, 40, 20), tall, [QRect(500, 400, 40, 20)]), tall)
    assert beside.left() > 540
    pointer = QRect(560, 430, 8, 8)
    moved = QRect(corner(room, QRect(500, 400, 40, 20), size, [QRect(500, 400, 40, 20), pointer]), size)
    assert not moved.intersects(pointer)


def test_arrows_walk_through_every_token_and_ghost_in_reading_order(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(ghosts="all")
    transcript = window.transcript
    transcript.setFocus()
    pieces = window.session.turns[0].answer.text.pieces
    walked: list[Spot] = []
    for _ in pieces:
        qtbot.keyClick(transcript, Qt.Key.Key_Right)
        place = window.cursor_place.place
        assert place is not None
        spot = spot_of(place, window.session.turns[0].answer)
        assert spot is not None
        walked.append(spot)
        assert window.verdicts.card.isVisible()
    assert walked == [piece.spot for piece in pieces]
    last = window.cursor_place.place
    qtbot.keyClick(transcript, Qt.Key.Key_Right)
    assert window.cursor_place.place == last, "the end is the end"
    qtbot.keyClick(transcript, Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier)
    assert window.cursor_place.place is not None
    assert last is not None
    assert window.cursor_place.place.round == last.round - 1
    qtbot.keyClick(transcript, Qt.Key.Key_Escape)
    assert window.cursor_place.place is None
    assert window.verdicts.card.isHidden()


def test_what_is_pointed_at_elsewhere_takes_over_from_what_was_walked_to(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(size=(1000, 500), side_panel=False)
    engine.rounds = story_rounds(STORY * 6)
    window.send("A longer one.")
    wait_for_answer(qtbot, window)
    transcript, cursor = window.transcript, window.cursor_place
    transcript.setFocus()
    qtbot.keyClick(transcript, Qt.Key.Key_Left)
    assert window.verdicts.card.isVisible()
    far = Place(0, 1)
    cursor.point(far)  # as a chart does under the mouse
    qtbot.waitUntil(lambda: window.verdicts.card.isHidden())
    assert transcript.pointing.area(far).bottom() < 0, "pointing elsewhere does not scroll"
    cursor.pin(far)
    area = transcript.pointing.area(far)
    assert area.top() >= 0 and area.bottom() <= transcript.viewport().height(), "pinning elsewhere does"


@pytest.mark.parametrize(
    ("ghosts", "walked"),
    [("none", set()), ("above", {"rejected"}), ("rejected", {"rejected"}), ("all", {"rejected", "unjudged"})],
)
def test_hidden_ghosts_are_walked_past(qtbot: QtBot, open_window: Open, ghosts: Ghosts, walked: set[str]) -> None:
    window, _ = open_window(ghosts=ghosts)
    window.transcript.setFocus()
    kinds = set()
    for _ in range(30):
        qtbot.keyClick(window.transcript, Qt.Key.Key_Right)
        verdict = window.verdicts.card.verdict
        assert verdict is not None
        kinds.add(verdict.kind)
    assert kinds == {"accepted", "correction", "bonus"} | walked


def test_a_fold_stands_for_every_unjudged_token_of_its_round_and_says_what_they_were(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(ghosts="all")
    round_ = window.session.turns[0].answer.rounds[1]
    unjudged = [at for at, proposal in enumerate(round_.proposals) if proposal.status == "unjudged"]
    assert len(unjudged) > 1
    pointing = window.transcript.pointing
    fold = pointing.boxes(Place(0, 1, proposal=unjudged[0]))
    assert len(fold) == 1 and fold[0].width() > 8
    assert all(pointing.boxes(Place(0, 1, proposal=at)) == fold for at in unjudged)
    assert pointing.place_at(fold[0].center()) == Place(0, 1, proposal=unjudged[0])
    click(qtbot, window, Place(0, 1, proposal=unjudged[0]))
    verdict = window.verdicts.card.verdict
    assert verdict is not None and f"The {len(unjudged)} unjudged proposals of this round" in verdict.decision
    assert all(f"“{visible(round_.proposals[at].text)}”" in verdict.decision for at in unjudged)
    window.set_ghosts("rejected")
    assert pointing.boxes(Place(0, 1, proposal=unjudged[0])) == [], "nothing stands for what is not shown"
    assert pointing.boxes(ghost(window))


def test_an_accepted_token_without_letters_is_outlined_while_ghosts_are_hidden(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(ghosts=False)
    base = engine.rounds[0]
    end = replace(base.emitted[0], text="", bytes=b"<end>")
    engine.rounds = [replace(base, proposals=base.proposals[:1], emitted=(end,), text="", finish="eos")]
    window.send("Say nothing.")
    wait_for_answer(qtbot, window)
    assert window.transcript.pointing.boxes(Place(1, 0, proposal=0))


class Painted(QObject):
    """Counts how often a widget is painted."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.count += event.type() == QEvent.Type.Paint
        return False


def test_text_that_changes_below_a_card_is_no_reason_to_paint_it(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    click(qtbot, window, ghost(window))
    card = window.verdicts.card
    qtbot.waitUntil(card.isVisible)
    QApplication.processEvents()
    text, parts = Painted(window.transcript.viewport()), Painted(card.share_rows)

    def change_text() -> int:
        """How often the card's parts are painted with it."""
        text.count = parts.count = 0
        window.transcript.viewport().update()
        qtbot.waitUntil(lambda: text.count > 0)
        return parts.count

    qtbot.waitUntil(lambda: change_text() == 0)  # once it has been painted itself
    body = card.share_rows.parentWidget()
    image, inside = window.grab().toImage(), body.mapTo(window, QPoint(1, body.height() // 2))
    assert image.pixelColor(inside * image.devicePixelRatio()) == QColor(window.transcript.theme.panel)
    body.setStyleSheet("background: transparent")
    qtbot.waitUntil(lambda: change_text() > 0)  # the twin: text may show through


@pytest.mark.usefixtures("fonts")
def test_a_card_without_alternatives_scrolls_by_key(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(size=(560, 460), text_scale=1.8)
    window.setMinimumSize(0, 0)
    window.resize(window.width(), 420)
    engine.rounds = story_rounds(rule="rejection")
    base = engine.rounds[1]
    engine.rounds[1] = replace(base, proposals=tuple(replace(p, draft_top=(), target_top=()) for p in base.proposals))
    window.send("Another one.")
    wait_for_answer(qtbot, window)
    window.cursor_place.pin(Place(1, 1, proposal=base.accepted))
    card = window.verdicts.card
    card.focus_first()
    assert card.hasFocus()
    bar = card.findChildren(QScrollArea)[0].verticalScrollBar()
    assert bar.maximum() > 0
    qtbot.keyClick(card, Qt.Key.Key_PageDown)
    assert bar.value() > 0


def test_a_click_pins_and_another_lets_go(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    place = ghost(window)
    click(qtbot, window, place)
    assert window.cursor_place.pin_place == place
    card = window.verdicts.card
    assert card.isVisible()
    assert card.close_button.isVisible()
    text = shown(window)
    hover(qtbot, window, place_of(0, Spot(4, True, len(window.session.turns[0].answer.rounds[4].emitted) - 1)))
    assert shown(window) == text, "a pinned card stays while the pointer wanders"
    click(qtbot, window, place)
    assert window.cursor_place.pin_place is None
    assert card.isHidden()
    click(qtbot, window, place)
    card.close_button.click()
    assert window.cursor_place.pin_place is None


def test_a_drag_selects_and_pins_nothing(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    viewport = window.transcript.viewport()
    start, end = middle(window, ghost(window, 0)), middle(window, ghost(window, 3))
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=end)
    assert window.cursor_place.pin_place is None
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier, middle(window, ghost(window, 4)))
    assert window.cursor_place.pin_place is None
    assert window.transcript.selected_text()


def test_escape_lets_go_before_it_stops(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 3
    window.send("Another one.")
    qtbot.waitUntil(lambda: window.session.turns[-1].answer.tally.rounds == 3)
    window.transcript.setFocus()
    qtbot.keyClick(window.transcript, Qt.Key.Key_Right)
    qtbot.keyClick(window.transcript, Qt.Key.Key_Return)
    assert window.cursor_place.pin_place is not None
    assert window.verdicts.card.isVisible()
    qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Escape)
    assert window.cursor_place.pin_place is None
    assert engine.stopped == []
    assert window.transcript.hasFocus(), "the keyboard goes back to where it came from"
    qtbot.keyClick(window.transcript, Qt.Key.Key_Escape)  # no longer walking
    qtbot.keyClick(window.transcript, Qt.Key.Key_Escape)
    assert engine.stopped == [engine.runs[1]]


def test_a_place_pinned_elsewhere_comes_into_view(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window((900, 500))
    bar = window.transcript.verticalScrollBar()
    bar.setValue(bar.maximum())
    place = ghost(window, 0)
    assert bar.maximum() > 0
    before = bar.value()
    window.cursor_place.point(place)
    assert bar.value() == before, "pointing scrolls nothing"
    window.cursor_place.leave()
    window.cursor_place.pin(place)
    area = window.transcript.pointing.area(place)
    assert window.transcript.viewport().rect().contains(area)


def test_an_alternative_branches_the_answer_and_the_arrows_lead_back(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    first = window.session.turns[0].answer
    place = ghost(window, 3)
    click(qtbot, window, place)
    chosen = next(
        button for button in window.verdicts.card.alternatives if button.text() == "" and "gull" in button.accessibleName()
    )
    assert chosen.accessibleName().startswith("Branch with ·gull")
    chosen.click()
    wait_for_answer(qtbot, window)
    request = engine.requests[-1]
    kept = [token.id for round_ in first.rounds[:3] for token in round_.emitted]
    kept += [token.id for token in first.rounds[3].emitted[: place.proposal]]
    assert chosen.alternative is not None
    assert request.given == (*kept, chosen.alternative.id)
    assert request.messages == engine.requests[0].messages
    assert request.options.seed == 4242, "the seed of the answer it leaves"
    assert len(window.session.turns) == 1
    branch = window.session.turns[0].answer
    assert branch is not first
    assert branch.text.text == "".join(f"[{token}]" for token in request.given) + STORY
    (switch,) = (each for each in window.transcript.findChildren(SiblingSwitch) if each.isVisible())
    assert switch.words.text() == "2/2"
    qtbot.mouseClick(switch.back, Qt.MouseButton.LeftButton)
    assert window.session.turns[0].answer is first
    assert switch.words.text() == "1/2"
    assert not switch.back.isEnabled()
    window.actions_by_id["nextAnswerAction"].trigger()
    assert window.session.turns[0].answer is branch
    click(qtbot, window, ghost(window, 0))
    window.verdicts.card.alternatives[1].click()
    wait_for_answer(qtbot, window)
    assert engine.requests[-1].given[: len(request.given)] == request.given, "a branch of a branch keeps both"
    assert switch.words.text() == "3/3"


def test_a_branch_needs_no_mouse(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    window.actions_by_id["transcriptAction"].trigger()
    qtbot.keyClick(window.transcript, Qt.Key.Key_Right)
    qtbot.keyClick(window.transcript, Qt.Key.Key_Right)
    qtbot.keyClick(window.transcript, Qt.Key.Key_Return)
    first = window.focusWidget()
    assert first in window.verdicts.card.alternatives
    held = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Return, Qt.KeyboardModifier.NoModifier, "", autorep=True)
    QApplication.sendEvent(first, held)
    assert len(engine.requests) == 1
    qtbot.keyClick(first, Qt.Key.Key_Return)
    wait_for_answer(qtbot, window)
    assert len(engine.requests[-1].given) == 2
    assert window.transcript.hasFocus()


def test_answering_again_keeps_the_answer_there_was(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    first = window.session.turns[0].answer
    window.messages.regenerate()
    wait_for_answer(qtbot, window)
    assert [answer is first for answer in window.session.turns[0].answers] == [True, False]


def test_a_branch_that_fails_leaves_the_answer_as_it_was(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    first = window.session.turns[0].answer
    engine.hold = True
    click(qtbot, window, ghost(window))
    window.verdicts.card.alternatives[1].click()
    engine.say(RunFailed(engine.runs[1], "This token ends the answer, so nothing could follow it. Choose another."))
    qtbot.waitUntil(window.banner.isVisible)
    assert window.session.turns[0].answer is first
    assert window.session.turns[0].siblings == []
    assert not any(each.isVisible() for each in window.transcript.findChildren(SiblingSwitch))


def test_what_cannot_be_branched_says_why(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 2
    window.send("Another one.")
    qtbot.waitUntil(lambda: window.session.turns[-1].answer.tally.rounds == 2)
    card = window.verdicts.card
    window.cursor_place.pin(Place(1, 1, proposal=0))
    assert "once the answer has finished" in card.hint.text()
    assert not any(button.isEnabled() for button in card.alternatives)
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    assert "branch the answer" in card.hint.text(), "the card learns that the answer has ended"
    engine.hold = True
    window.chat.change("target", "/another/model")
    window.cursor_place.pin(None)
    window.cursor_place.pin(Place(1, 1, proposal=0))
    assert "A different target" in card.hint.text()


def test_an_earlier_answer_can_be_branched_and_what_followed_stays_with_the_one_it_leaves(
    qtbot: QtBot, open_window: Open
) -> None:
    window, engine = open_window()
    window.send("Another one.")
    wait_for_answer(qtbot, window)
    window.cursor_place.pin(ghost(window))
    window.verdicts.card.alternatives[1].click()
    wait_for_answer(qtbot, window)
    assert [turn.prompt for turn in window.session.turns] == ["Tell me a story."]
    assert [message.content for message in engine.requests[-1].messages] == ["Tell me a story."]
    assert engine.requests[-1].given
    window.messages.show_sibling(0, -1)
    assert [turn.prompt for turn in window.session.turns] == ["Tell me a story.", "Another one."]


def test_what_stands_in_the_text_is_no_alternative(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    answer = window.session.turns[0].answer
    accepted = next(round_.index for round_ in answer.rounds if round_.accepted)
    click(qtbot, window, Place(0, accepted, proposal=0))
    marks = [button.alternative.marks for button in window.verdicts.card.alternatives if button.alternative]
    assert marks[0] == ("proposed", "in the text")
    assert [button.isEnabled() for button in window.verdicts.card.alternatives] == ["in the text" not in mark for mark in marks]


def test_a_new_chat_forgets_what_was_pinned(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    click(qtbot, window, ghost(window))
    window.new_chat()
    assert window.cursor_place.place is None
    assert window.verdicts.card.isHidden()


def test_a_screen_reader_reads_tokens_and_their_states(qtbot: QtBot, open_window: Open) -> None:
    screen_reader.install()
    window, _ = open_window()
    transcript = window.transcript
    interface = QAccessible.queryAccessibleInterface(transcript)
    text = interface.textInterface()
    assert text is not None
    whole = text.text(0, text.characterCount())
    assert whole == plain_text(transcript)
    assert STORY in whole
    answer = window.session.turns[0].answer
    for index, piece in enumerate(answer.text.pieces):
        place = place_of(0, piece.spot)
        transcript.pointing.go(place)
        position = text.cursorPosition()
        if not piece.ghost:
            assert whole[position : position + len(piece.text)] == piece.text
            assert screen_reader.place_at(transcript, position) == place
        words = interface.text(QAccessible.Text.Description)
        assert piece.kind in words
        if index > 12:
            break
    text.setCursorPosition(whole.index("Ines"))
    assert "Ines" in interface.text(QAccessible.Text.Description)
    assert "Ines" in window.verdicts.card.accessibleDescription()
    assert screen_reader.place_at(transcript, 3) is None, "a prompt has no verdicts"


def test_a_whole_round_pointed_at_elsewhere_is_outlined_without_a_card(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.cursor_place.point(Place(0, 2))
    assert not window.transcript.pointing.area(Place(0, 2)).isEmpty()
    window.cursor_place.pin(Place(0, 2))
    assert window.verdicts.card.isHidden()
    window.transcript.viewport().grab()


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize(
    ("size", "scale"),
    [
        ((1280, 800), 1.0),
        ((640, 480), 1.4),
        *(
            pytest.param(size, scale, marks=pytest.mark.full)
            for size, scale in [((1280, 800), 1.4), ((940, 600), 1.0), ((940, 600), 1.4), ((640, 480), 1.0)]
        ),
    ],
)
def test_a_hovering_card_is_whole_and_on_the_screen_wherever_its_token_stands(
    open_window: Open, size: tuple[int, int], scale: float
) -> None:
    window, _ = open_window(size, text_scale=scale)
    card, bar = window.verdicts.card, window.transcript.verticalScrollBar()
    answer, seen = window.session.turns[0].answer, 0
    for share in (0.0, 1.0):
        bar.setValue(round(share * bar.maximum()))
        for round_ in answer.rounds:
            for place in range(len(round_.proposals)):
                window.cursor_place.point(Place(0, round_.index, place))
                window.verdicts._show_pointed()
                QApplication.processEvents()
                assert visible_part(window).contains(card.geometry())
                assert card._scroll.verticalScrollBar().maximum() == 0, "no line is below its end"
                body = card._body.layout()
                assert body is not None and card._scroll.viewport().height() >= body.totalHeightForWidth(card._body.width())
                seen += 1
    assert seen > 40


def test_the_card_shows_a_sentence_and_two_bars_and_keeps_the_rest_folded(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    click(qtbot, window, ghost(window))
    card = window.verdicts.card
    qtbot.waitUntil(card.isVisible)
    assert card.verdict is not None
    assert card.headline.isVisible() and card.headline.text() == card.verdict.headline
    assert card.share_rows.isVisible()
    folded = (card.data, card.where, card.rows, card.decision, card.expected_rows)
    assert not any(part.isVisible() for part in folded)
    low = card.height()
    card.details.click()
    assert all(part.isVisible() for part in folded) and card.height() > low
    assert window.settings.verdict_details, "remembered"
    assert window.rect().contains(card.geometry())
    click(qtbot, window, ghost(window))
    click(qtbot, window, ghost(window, 3))
    assert card.data.isVisible(), "for every token"
    card.details.setFocus()
    qtbot.keyClick(card.details, Qt.Key.Key_Space)
    assert not card.data.isVisible() and not window.settings.verdict_details
    assert card.details.hasFocus()


def test_details_are_open_if_they_were_left_open(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(verdict_details=True)
    hover(qtbot, window, ghost(window))
    card = window.verdicts.card
    qtbot.waitUntil(card.isVisible)
    assert card.data.isVisible() and not card.details.isVisible(), "a card under the mouse cannot be clicked"


def test_alternatives_show_where_they_can_be_chosen_or_with_the_details(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    hover(qtbot, window, ghost(window))
    card = window.verdicts.card
    qtbot.waitUntil(card.isVisible)
    assert card.alternatives == []
    click(qtbot, window, ghost(window))
    assert any(button.isEnabled() for button in card.alternatives)


def trace_with(rule: Rule, **changes: object) -> tuple[Answer, Round]:
    """An answer of tiny models that drafted trees, with one round that has several choices."""
    options = tree_options(rule, **changes)  # type: ignore[arg-type]
    rounds = tree_rounds(options)
    made = Answer(options, "builtin-draft", 0.0)
    made.rounds = list(rounds)
    return made, next(each for each in rounds if each.rejected and len(each.choices(each.accepted)) > 1)


@pytest.mark.parametrize("appearance", [LIGHT, DARK], ids=["light", "dark"])
def test_a_card_of_shared_noise_draws_the_scores_and_one_of_rejection_the_coins(qtbot: QtBot, appearance: Theme) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(900, 900)
    host.show()
    card = VerdictCard(host)
    card.set_look(appearance, 1.0)
    for rule in ("gumbel", "rejection"):
        made, round_ = trace_with(rule)
        verdict = judge(made, Spot(round_.index, True, round_.accepted))
        assert verdict is not None
        card.show_verdict(verdict, pinned=True)
        card.show()
        assert card.score_chart.isVisible() == (rule == "gumbel") == card.why.text().startswith("A score is")
        assert card.coin_chart.isVisible() == (rule == "rejection")
        assert card.sibling_rows.isVisible() and len(card.sibling_rows.siblings) >= len(round_.choices(round_.accepted))
        chart = card.score_chart if rule == "gumbel" else card.coin_chart
        image = chart.grab().toImage()
        colour = QColor(appearance.time_verify if rule == "gumbel" else appearance.text)
        seen = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
        assert colour.name() in seen, "the target's bars, or the mark of the coin"
        assert card.accessibleDescription().count("Choice 1") == 1


def test_the_longest_bar_is_the_token_that_was_drawn(qtbot: QtBot) -> None:
    made, round_ = trace_with("gumbel")
    verdict = judge(made, Spot(round_.index, True, round_.accepted))
    assert verdict is not None and verdict.draws is not None
    chart = ScoreChart()
    qtbot.addWidget(chart)
    chart.resize(372, 10)
    chart.show_draws(verdict.draws, CardLook(LIGHT, 1.0))
    chart.resize(372, chart.height())
    image = chart.grab().toImage()
    rows = len(verdict.draws.contenders)
    pitch = (chart.height() - 18) // rows

    def reach(row: int) -> int:
        """The right end of the lower bar of a row."""
        y = 18 + row * pitch + pitch * 2 // 3
        ground = image.pixelColor(200, 16)
        return max((x for x in range(96, 278) if image.pixelColor(x, y) != ground), default=0)

    drawn = next(at for at, each in enumerate(verdict.draws.contenders) if each.id == verdict.draws.drawn)
    scored = [at for at, each in enumerate(verdict.draws.contenders) if each.target is not None and each.target.total is not None]
    assert max(scored, key=reach) == drawn == 0
    assert len(scored) > 1


def test_a_missing_seed_is_said_instead_of_a_picture(qtbot: QtBot) -> None:
    made, round_ = trace_with("gumbel")
    made.options = made.options.replace(seed=None)
    verdict = judge(made, Spot(round_.index, True, round_.accepted))
    assert verdict is not None and verdict.draws is None
    host = QWidget()
    qtbot.addWidget(host)
    card = VerdictCard(host)
    card.show_verdict(verdict, pinned=True)
    assert "seed of this answer is not recorded" in card.why.text()
    assert not card.why.isHidden() and card.score_chart.isHidden()


def test_enter_pins_the_card_and_again_opens_its_details(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 3
    window.send("Another one.")  # while it runs, no alternative can be chosen
    qtbot.waitUntil(lambda: window.session.turns[-1].answer.tally.rounds == 3)
    window.transcript.setFocus()
    qtbot.keyClick(window.transcript, Qt.Key.Key_Right)
    qtbot.keyClick(window.transcript, Qt.Key.Key_Return)
    card = window.verdicts.card
    assert card.hasFocus() and not card.data.isVisible()
    qtbot.keyClick(card, Qt.Key.Key_Return)
    assert card.data.isVisible()
    qtbot.keyClick(card, Qt.Key.Key_Tab)
    assert card.details.hasFocus()
    qtbot.keyClick(card.details, Qt.Key.Key_Return)
    assert not card.data.isVisible()
    engine.pause_after = None
    wait_for_answer(qtbot, window)
