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
from app.conversation.verdict_card import AlternativeButton, VerdictCard
from app.conversation.verdict_charts import CardLook, ScoreChart
from app.conversation.verdict_host import EDGE, GAP, corner
from app.look.placing import visible_part
from app.look.theme import DARK, LIGHT, Theme
from app.session.cursor import Place
from app.session.session import Answer
from app.session.token_navigation import place_of, spot_of
from app.verdict.verdict import judge
from app.window.window import Window
from engine.lens.pieces import Ghosts, Spot, visible
from engine.types import Candidate, Proposal, Round, Rule, RunFailed
from tests.app.conversation.showing import Conversation, Show, colours_in
from tests.app.driving import wait_for_answer
from tests.app.fakes import STORY, FakeEngine, story_rounds
from tests.trees import tree_options, tree_rounds

Open = Callable[..., tuple[Window, FakeEngine]]


def told_rounds() -> list[Round]:
    """The story's rounds; each proposal has alternatives on both sides, and ids that tell tokens apart."""

    def told(base: int, place: int, proposal: Proposal) -> Proposal:
        own = Candidate(base + place, proposal.text, 0.5)
        if proposal.status == "unjudged":
            return replace(proposal, id=own.id, target_top=(), draft_top=())
        others = Candidate(base + 50 + place, " gull", 0.3), Candidate(7, " end", 0.1)
        return replace(proposal, id=own.id, target_top=(own, *others), draft_top=(own,))

    rounds = []
    for round_ in story_rounds():
        base = 100 * (round_.index + 1)
        proposals = tuple(told(base, place, proposal) for place, proposal in enumerate(round_.proposals))
        emitted = tuple(
            replace(token, id=base + place if token.origin == "accepted" else base + 90)
            for place, token in enumerate(round_.emitted)
        )
        rounds.append(replace(round_, proposals=proposals, emitted=emitted))
    return rounds


@pytest.fixture
def open_window(qtbot: QtBot, open_window: Open) -> Open:
    """Opens windows with a whole answer in them."""

    def opened(**settings: Any) -> tuple[Window, FakeEngine]:
        window, engine = open_window(told_rounds(), **settings)
        window.send("Tell me a story.")
        wait_for_answer(qtbot, window)
        return window, engine

    return opened


def ghost(shown: Conversation | Window, round_: int = 1) -> Place:
    """The rejected proposal of a round of the first answer."""
    return Place(0, round_, proposal=shown.transcript.session.turns[0].answer.rounds[round_].accepted)


def token(card: VerdictCard) -> str:
    """The token on the card; empty while there is none."""
    return "" if card.verdict is None or card.isHidden() else card.verdict.token


def press(
    qtbot: QtBot, shown: Conversation, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> Place:
    """Presses a key in the text; returns the place pointed at then."""
    shown.transcript.setFocus()
    qtbot.keyClick(shown.transcript, key, modifiers)
    assert shown.cursor.place is not None
    return shown.cursor.place


def test_the_pointer_points_the_cursor_and_the_card_follows_after_a_moment(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    place, card = ghost(shown), shown.card
    shown.hover(place)
    assert shown.cursor.place == place and card.isHidden(), "not at once"
    qtbot.waitUntil(card.isVisible)
    assert "·" in token(card)
    assert card.testAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents), "the text stays in reach"
    shown.hover(QPoint(3, shown.transcript.viewport().height() - 3))
    assert shown.cursor.place is None
    qtbot.waitUntil(card.isHidden)


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize(
    ("size", "scale"),
    [
        ((1280, 800), 1.0),
        ((640, 480), 1.4),
        ((900, 560), 1.5),
        *(
            pytest.param(size, scale, marks=pytest.mark.full)
            for size, scale in [((1280, 800), 1.4), ((940, 600), 1.0), ((940, 600), 1.4), ((640, 480), 1.0)]
        ),
    ],
)
def test_a_card_that_is_not_pinned_is_whole_and_on_the_screen_and_off_its_token(
    show_conversation: Show, size: tuple[int, int], scale: float
) -> None:
    shown = show_conversation(told_rounds(), size=size, scale=scale)
    viewport, card = shown.transcript.viewport(), shown.card
    (area,) = card.findChildren(QScrollArea)
    seen = 0
    for round_ in shown.answer.rounds[::3]:
        for at in range(len(round_.proposals)):
            place = Place(0, round_.index, at)
            shown.transcript.pointing.go(place)
            QApplication.processEvents()
            assert card.isVisible() and visible_part(shown.host).contains(card.geometry())
            body, layout = area.widget(), area.widget().layout()
            assert area.verticalScrollBar().maximum() == 0, "no line is below its end"
            assert layout is not None and area.viewport().height() >= layout.totalHeightForWidth(body.width())
            area_of_letters = shown.transcript.pointing.area(place)
            letters = QRect(viewport.mapTo(shown.host, area_of_letters.topLeft()), area_of_letters.size())
            room = max(letters.top(), shown.host.height() - letters.bottom()) - GAP - EDGE
            assert card.height() >= room or not card.geometry().intersects(letters)
            seen += 1
    assert seen > 10


def test_a_pinned_card_stays_inside_a_window_that_shrinks(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    shown.click(qtbot, ghost(shown))
    shown.host.resize(600, 420)
    qtbot.waitUntil(lambda: shown.host.rect().contains(shown.card.geometry()))
    assert shown.card.isVisible()


def test_a_pinned_card_goes_and_comes_with_the_conversation(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    shown.click(qtbot, ghost(shown))
    shown.transcript.hide()
    assert shown.card.isHidden()
    shown.transcript.show()
    assert shown.card.isVisible()


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


def test_arrows_walk_through_every_token_and_ghost_in_reading_order(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds(), ghosts="all")
    pieces, walked = shown.answer.text.pieces, list[Spot | None]()
    for _ in pieces:
        place = press(qtbot, shown, Qt.Key.Key_Right)
        walked.append(spot_of(place, shown.answer))
        assert shown.card.isVisible()
    assert walked == [piece.spot for piece in pieces]
    last = shown.cursor.place
    assert last is not None and press(qtbot, shown, Qt.Key.Key_Right) == last, "the end is the end"
    assert press(qtbot, shown, Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier).round == last.round - 1


def test_what_is_pointed_at_elsewhere_takes_over_from_what_was_walked_to(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(story_rounds(STORY * 6), size=(800, 420))
    transcript, cursor = shown.transcript, shown.cursor
    press(qtbot, shown, Qt.Key.Key_Left)
    assert shown.card.isVisible()
    far = Place(0, 1)
    cursor.point(far)  # as a chart does under the mouse
    qtbot.waitUntil(shown.card.isHidden)
    assert transcript.pointing.area(far).bottom() < 0, "pointing elsewhere does not scroll"
    cursor.pin(far)
    assert transcript.viewport().rect().contains(transcript.pointing.area(far)), "pinning elsewhere does"


@pytest.mark.parametrize(
    ("ghosts", "walked"),
    [("none", set()), ("above", {"rejected"}), ("rejected", {"rejected"}), ("all", {"rejected", "unjudged"})],
)
def test_hidden_ghosts_are_walked_past(qtbot: QtBot, show_conversation: Show, ghosts: Ghosts, walked: set[str]) -> None:
    shown, kinds = show_conversation(told_rounds(), ghosts=ghosts), set()
    for _ in range(30):
        place = press(qtbot, shown, Qt.Key.Key_Right)
        assert not shown.transcript.pointing.area(place).isEmpty()
        assert shown.card.verdict is not None
        kinds.add(shown.card.verdict.kind)
    assert kinds == {"accepted", "correction", "bonus"} | walked


def test_a_fold_stands_for_every_unjudged_token_of_its_round_and_says_what_they_were(
    qtbot: QtBot, show_conversation: Show
) -> None:
    shown = show_conversation(told_rounds(), ghosts="all")
    round_, pointing = shown.answer.rounds[1], shown.transcript.pointing
    unjudged = [at for at, proposal in enumerate(round_.proposals) if proposal.status == "unjudged"]
    assert len(unjudged) > 1
    fold = pointing.boxes(Place(0, 1, proposal=unjudged[0]))
    assert len(fold) == 1 and fold[0].width() > 8
    assert all(pointing.boxes(Place(0, 1, proposal=at)) == fold for at in unjudged)
    assert pointing.place_at(fold[0].center()) == Place(0, 1, proposal=unjudged[0])
    shown.click(qtbot, Place(0, 1, proposal=unjudged[0]))
    verdict = shown.card.verdict
    assert verdict is not None and f"The {len(unjudged)} unjudged proposals of this round" in verdict.decision
    assert all(f"“{visible(round_.proposals[at].text)}”" in verdict.decision for at in unjudged)
    shown.transcript.set_ghosts("rejected")
    assert pointing.boxes(Place(0, 1, proposal=unjudged[0])) == [], "nothing stands for what is not shown"
    assert pointing.boxes(ghost(shown))


def test_an_accepted_token_without_letters_is_outlined_while_ghosts_are_hidden(show_conversation: Show) -> None:
    base = story_rounds()[0]
    end = replace(base.emitted[0], text="", bytes=b"<end>")
    shown = show_conversation([replace(base, proposals=base.proposals[:1], emitted=(end,), text="", finish="eos")], ghosts="none")
    assert shown.transcript.pointing.boxes(Place(0, 0, proposal=0))


class Painted(QObject):
    """Counts how often a widget is painted."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.count += event.type() == QEvent.Type.Paint
        return False


def test_text_that_changes_below_a_card_is_no_reason_to_paint_it(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    shown.click(qtbot, ghost(shown))
    card, viewport = shown.card, shown.transcript.viewport()
    qtbot.waitUntil(card.isVisible)
    QApplication.processEvents()
    text, parts = Painted(viewport), Painted(card.share_rows)

    def change_text() -> int:
        """How often the card's parts are painted with it."""
        text.count = parts.count = 0
        viewport.update()
        qtbot.waitUntil(lambda: text.count > 0)
        return parts.count

    qtbot.waitUntil(lambda: change_text() == 0)  # once it has been painted itself
    body = card.share_rows.parentWidget()
    image, inside = shown.host.grab().toImage(), body.mapTo(shown.host, QPoint(1, body.height() // 2))
    assert image.pixelColor(inside * image.devicePixelRatio()) == QColor(shown.transcript.theme.panel)
    body.setStyleSheet("background: transparent")
    qtbot.waitUntil(lambda: change_text() > 0)  # the twin: text may show through


@pytest.mark.usefixtures("fonts")
def test_a_card_without_alternatives_scrolls_by_key(qtbot: QtBot, show_conversation: Show) -> None:
    rounds = story_rounds(rule="rejection")
    rounds[1] = replace(rounds[1], proposals=tuple(replace(p, draft_top=(), target_top=()) for p in rounds[1].proposals))
    shown = show_conversation(rounds, size=(560, 300), scale=1.8)
    shown.cursor.pin(ghost(shown))
    shown.card.focus_first()
    assert shown.card.hasFocus()
    bar = shown.card.findChildren(QScrollArea)[0].verticalScrollBar()
    assert bar.maximum() > 0
    qtbot.keyClick(shown.card, Qt.Key.Key_PageDown)
    assert bar.value() > 0


def test_a_click_pins_and_another_lets_go(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    place, card, cursor = ghost(shown), shown.card, shown.cursor
    shown.click(qtbot, place)
    assert cursor.pin_place == place and card.isVisible() and card.close_button.isVisible()
    words = token(card)
    shown.hover(place_of(0, Spot(4, True, len(shown.answer.rounds[4].emitted) - 1)))
    assert token(card) == words, "a pinned card stays while the pointer wanders"
    shown.click(qtbot, place)
    assert cursor.pin_place is None and card.isHidden()
    shown.click(qtbot, place)
    card.close_button.click()
    assert cursor.pin_place is None


def test_a_drag_selects_and_pins_nothing(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    viewport = shown.transcript.viewport()
    start, end, further = (shown.middle(ghost(shown, index)) for index in (0, 3, 4))
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=end)
    assert shown.cursor.pin_place is None
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier, further)
    assert shown.cursor.pin_place is None
    assert shown.transcript.selected_text()


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


def test_a_place_pinned_elsewhere_comes_into_view(show_conversation: Show) -> None:
    shown = show_conversation(told_rounds(), size=(700, 240))
    bar, place = shown.transcript.verticalScrollBar(), ghost(shown, 0)
    bar.setValue(bar.maximum())
    before = bar.value()
    shown.cursor.point(place)
    assert bar.value() == before > 0, "pointing scrolls nothing"
    shown.cursor.leave()
    shown.cursor.pin(place)
    assert shown.transcript.viewport().rect().contains(shown.transcript.pointing.area(place))


def test_an_alternative_branches_the_answer_and_the_arrows_lead_back(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    first = window.session.turns[0].answer
    place = ghost(window, 3)
    window.cursor_place.pin(place)
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
    window.cursor_place.pin(ghost(window, 0))
    window.verdicts.card.alternatives[1].click()
    wait_for_answer(qtbot, window)
    assert engine.requests[-1].given[: len(request.given)] == request.given, "a branch of a branch keeps both"
    assert switch.words.text() == "3/3"


def test_a_branch_needs_no_mouse(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    wanted: list[tuple[object, ...]] = []
    shown.verdicts.branch_wanted.connect(lambda *branch: wanted.append(branch))
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Return):
        press(qtbot, shown, key)
    first = QApplication.focusWidget()
    assert isinstance(first, AlternativeButton) and first in shown.card.alternatives and first.alternative is not None
    held = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Return, Qt.KeyboardModifier.NoModifier, "", autorep=True)
    QApplication.sendEvent(first, held)
    assert wanted == []
    qtbot.keyClick(first, Qt.Key.Key_Return)
    kept = (shown.answer.rounds[0].emitted[0].id,)
    assert wanted == [(0, kept, first.alternative.id, first.alternative.text)]


def test_a_branch_that_fails_leaves_the_answer_as_it_was(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    first = window.session.turns[0].answer
    engine.hold = True
    window.cursor_place.pin(ghost(window))
    window.verdicts.card.alternatives[1].click()
    engine.say(RunFailed(engine.runs[1], "This token ends the answer, so nothing could follow it. Choose another."))
    qtbot.waitUntil(window.banner.isVisible)
    assert window.session.turns[0].answer is first
    assert window.session.turns[0].siblings == []
    assert not any(each.isVisible() for each in window.transcript.findChildren(SiblingSwitch))


def test_what_cannot_be_branched_says_why(show_conversation: Show) -> None:
    shown = show_conversation(told_rounds()[:2], finished=False)
    card, place = shown.card, Place(0, 1, proposal=0)
    shown.cursor.pin(place)
    assert "once the answer has finished" in card.hint.text()
    assert not any(button.isEnabled() for button in card.alternatives)
    shown.finish()
    assert "branch the answer" in card.hint.text(), "the card learns that the answer has ended"
    shown.target = "/another/model"
    shown.cursor.pin(None)
    shown.cursor.pin(place)
    assert "different target" in card.hint.text()


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


def test_what_stands_in_the_text_is_no_alternative(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    accepted = next(round_.index for round_ in shown.answer.rounds if round_.accepted)
    shown.click(qtbot, Place(0, accepted, proposal=0))
    marks = [button.alternative.marks for button in shown.card.alternatives if button.alternative]
    assert marks[0] == ("proposed", "in the text")
    assert [button.isEnabled() for button in shown.card.alternatives] == ["in the text" not in mark for mark in marks]


def test_a_new_chat_forgets_what_was_pinned(show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    shown.cursor.pin(ghost(shown))
    shown.session.turns = []
    shown.transcript.sync()
    assert shown.cursor.place is None
    assert shown.card.isHidden()


def test_a_screen_reader_reads_tokens_and_their_states(show_conversation: Show) -> None:
    screen_reader.install()
    shown = show_conversation(told_rounds())
    transcript = shown.transcript
    interface = QAccessible.queryAccessibleInterface(transcript)
    text = interface.textInterface()
    assert text is not None
    whole = text.text(0, text.characterCount())
    assert whole == plain_text(transcript) and STORY in whole
    for piece in shown.answer.text.pieces[:13]:
        place = place_of(0, piece.spot)
        transcript.pointing.go(place)
        position = text.cursorPosition()
        if not piece.ghost:
            assert whole[position : position + len(piece.text)] == piece.text
            assert screen_reader.place_at(transcript, position) == place
        assert piece.kind in interface.text(QAccessible.Text.Description)
    text.setCursorPosition(whole.index("Ines"))
    assert "Ines" in interface.text(QAccessible.Text.Description)
    assert "Ines" in shown.card.accessibleDescription()
    assert screen_reader.place_at(transcript, 3) is None, "a prompt has no verdicts"


def test_a_whole_round_pointed_at_elsewhere_is_outlined_without_a_card(show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    plain = shown.transcript.grab().toImage()
    shown.cursor.pin(Place(0, 2))
    assert shown.card.isHidden()
    assert shown.transcript.grab().toImage() != plain


def test_the_card_shows_a_sentence_and_two_bars_and_keeps_the_rest_folded(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds(), size=(900, 1000))
    shown.click(qtbot, ghost(shown))
    card = shown.card
    assert card.verdict is not None and card.headline.isVisible() and card.headline.text() == card.verdict.headline
    assert card.share_rows.isVisible()
    folded = (card.data, card.where, card.rows, card.decision, card.expected_rows)
    assert not any(part.isVisible() for part in folded)
    low = card.height()
    card.details.click()
    assert all(part.isVisible() for part in folded) and card.height() > low
    assert shown.host.rect().contains(card.geometry())
    shown.cursor.pin(ghost(shown, 3))
    assert card.data.isVisible(), "for every token"
    card.details.setFocus()
    qtbot.keyClick(card.details, Qt.Key.Key_Space)
    assert not card.data.isVisible()
    assert card.details.hasFocus()


def test_details_that_were_left_open_are_open_and_may_be_folded(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(verdict_details=True)
    window.cursor_place.pin(Place(0, 1, proposal=0))
    card = window.verdicts.card
    assert card.data.isVisible()
    card.details.click()
    assert not card.data.isVisible() and not window.settings.verdict_details


def test_a_card_under_the_mouse_has_no_button_for_details(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    shown.card.open_details(True)
    shown.hover(ghost(shown))
    qtbot.waitUntil(shown.card.isVisible)
    assert shown.card.data.isVisible() and not shown.card.details.isVisible()


def test_alternatives_show_where_they_can_be_chosen_or_with_the_details(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds())
    shown.transcript.pointing.go(ghost(shown))
    assert shown.card.isVisible() and shown.card.alternatives == []
    shown.click(qtbot, ghost(shown))
    assert any(button.isEnabled() for button in shown.card.alternatives)


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
        assert colour.name() in colours_in(image), "the target's bars, or the mark of the coin"
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


def test_enter_pins_the_card_and_again_opens_its_details(qtbot: QtBot, show_conversation: Show) -> None:
    shown = show_conversation(told_rounds()[:3], finished=False)  # while it runs, no alternative can be chosen
    press(qtbot, shown, Qt.Key.Key_Right)
    press(qtbot, shown, Qt.Key.Key_Return)
    card = shown.card
    assert card.hasFocus() and not card.data.isVisible()
    qtbot.keyClick(card, Qt.Key.Key_Return)
    assert card.data.isVisible()
    qtbot.keyClick(card, Qt.Key.Key_Tab)
    assert card.details.hasFocus()
    qtbot.keyClick(card.details, Qt.Key.Key_Return)
    assert not card.data.isVisible()
