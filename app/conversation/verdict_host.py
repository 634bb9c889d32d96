"""Decides when the verdict card is shown and where: near its token, inside window and screen, not under the mouse pointer."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAccessibleTextCursorEvent, QCursor
from PySide6.QtWidgets import QApplication, QWidget

from app.conversation.screen_reader import offset_of
from app.conversation.transcript import Transcript
from app.conversation.verdict_card import VerdictCard
from app.look.placing import visible_part
from app.look.theme import Theme
from app.session.cursor import Cursor, Place
from app.session.token_navigation import token_at
from app.verdict.verdict import Alternative, tokens_before

DELAY = 350
"""Milliseconds of hovering before the card is shown; `NEXT` if it shows another token already."""
NEXT = 60
LINGER = 160
"""Milliseconds without a token under the pointer before the card hides, so that it does not flicker between words."""
SETTLE = 80
"""Milliseconds from a resize of the window until the card is placed again, after the text has been laid out again."""
EDGE = 8
GAP = 12


class VerdictHost(QObject):
    """Shows the card of the token pointed at, and keeps the card of a pinned token open.

    Signals:
        branch_wanted: (turn, token ids to keep, id of the chosen token, its text).
    """

    branch_wanted = Signal(int, tuple, int, str)

    def __init__(
        self, window: QWidget, transcript: Transcript, cursor: Cursor, panel: QWidget, target: Callable[[], str]
    ) -> None:
        """Args:
        panel: contains the other views of the rounds, from which keys and mouse can point at tokens too.
        target: returns the target that will answer next.
        """
        super().__init__(window)
        self._target, self._panel = target, panel
        self.window, self.transcript, self.cursor = window, transcript, cursor
        self.card = VerdictCard(window)
        self.card.chosen.connect(self._chosen)
        self.card.closed.connect(self.close)
        self.card.unfolded.connect(self._show_again)
        self._shown: Place | None = None
        self._branchable = False
        self._wait = QTimer(self, singleShot=True)
        self._wait.timeout.connect(self._show_pointed)
        self._linger = QTimer(self, singleShot=True, interval=LINGER)
        self._linger.timeout.connect(self.hide)
        self._settle = QTimer(self, singleShot=True, interval=SETTLE)
        self._settle.timeout.connect(self._show_again)
        window.installEventFilter(self)
        transcript.installEventFilter(self)
        cursor.moved.connect(self._moved)
        cursor.pinned.connect(self._pinned)
        transcript.pointing.walked.connect(self._walked)
        transcript.pointing.entered.connect(self._enter)
        transcript.verticalScrollBar().valueChanged.connect(self._scrolled)
        transcript.code_scrolled.connect(self._scrolled)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the card and, if it is shown, places it again, because its size may have changed."""
        self.card.set_look(theme, scale)
        if not self.card.isHidden():
            self._show_again()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.window and event.type() == QEvent.Type.Resize and self.card.isVisible():
            self._settle.start()
        elif watched is self.transcript and event.type() == QEvent.Type.Hide:
            self._wait.stop()
            self.hide()
        elif watched is self.transcript and event.type() == QEvent.Type.Show:
            self._show(self.cursor.pin_place)
        return False

    def touch(self) -> None:
        """Updates the card after a change of the session: finished answers can be branched, running ones cannot."""
        if self._shown is not None and self.card.isVisible() and self._can_branch(self._shown) != self._branchable:
            self._show(self._shown)

    def stop(self) -> None:
        """Hides the card and cancels pending ones."""
        self._wait.stop()
        self._settle.stop()
        self.hide()

    @property
    def has_focus(self) -> bool:
        """Whether the card or a part of it has the keyboard focus."""
        focused = QApplication.focusWidget()
        return focused is not None and (focused is self.card or self.card.isAncestorOf(focused))

    @Slot()
    def hide(self) -> None:
        """Hides the card but keeps the pin; if the card had the focus, the text gets it."""
        self._linger.stop()
        self._shown = None
        if self.has_focus:
            self.transcript.setFocus(Qt.FocusReason.OtherFocusReason)
        self.card.hide()

    @Slot()
    def close(self) -> None:
        """Unpins the token; the focus returns to the text, on that token."""
        place, had_focus = self.cursor.pin_place, self.has_focus
        self.hide()
        self.cursor.pin(None)
        if had_focus:
            self.transcript.pointing.stay(place)

    # What the cursor says

    @Slot(object)
    def _moved(self, place: Place | None) -> None:
        if self.cursor.pin_place is not None or self.transcript.pointing.walking:
            self._wait.stop()  # a pinned card stays as it is; a key shows its token at once
            return
        if place is None or place.whole_round:
            self._wait.stop()
            if self.card.isVisible():
                self._linger.start()
            return
        self._linger.stop()
        self._wait.start(NEXT if self.card.isVisible() else DELAY)

    @Slot(object)
    def _pinned(self, place: Place | None) -> None:
        self._wait.stop()
        self._linger.stop()
        if place is None or place.whole_round:
            self.hide()
        else:
            self._show(place)

    @Slot()
    def _walked(self) -> None:
        self._linger.stop()
        place = self.cursor.place
        if place is None:
            self.hide()
        else:
            self._show(place)
            self.announce(place)

    @Slot()
    def _enter(self) -> None:
        if self.card.isVisible():
            self.card.focus_first()

    @Slot()
    def _show_pointed(self) -> None:
        self._show(self.cursor.place)

    @Slot()
    def _show_again(self) -> None:
        if self._shown is not None:
            self._show(self._shown)

    @Slot()
    def _scrolled(self) -> None:
        """Hides a card that is not pinned, because its token has moved."""
        if self.cursor.pin_place is None and not self.transcript.pointing.walking:
            self._wait.stop()
            self.hide()

    def announce(self, place: Place) -> None:
        """Announces a token, its state and its position in the text to a screen reader."""
        verdict = self.transcript.verdict_at(place)
        if QAccessible.isActive() and verdict is not None:
            offset = offset_of(self.transcript, place)
            QAccessible.updateAccessibility(QAccessibleTextCursorEvent(self.transcript, offset))
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.transcript, verdict.brief))

    # What is shown

    def _show(self, place: Place | None) -> None:
        verdict = self.transcript.verdict_at(place)
        if place is None or verdict is None:
            self.hide()
            return
        pinned = place == self.cursor.pin_place
        self._shown, self._branchable = place, self._can_branch(place)
        hint = self._hint(place, pinned) if verdict.target or verdict.draft else ""
        self.card.show_verdict(verdict, pinned, hint, pinned and self._branchable)
        self.card.move(self._corner(place, self.card.size()))
        self.card.show()
        self.card.raise_()

    def _can_branch(self, place: Place) -> bool:
        """Returns whether the answer can be branched here: nothing is running, and its target answers next."""
        found, session = token_at(self.transcript.session.turns, place), self.transcript.session
        if found is None or not session.idle:
            return False
        answer, spot = found
        same = answer.request is not None and answer.request.target == self._target()
        return same and tokens_before(answer, spot) is not None

    def _hint(self, place: Place, pinned: bool) -> str:
        """Returns how to reach the alternatives, or why none can be chosen."""
        session, found = self.transcript.session, token_at(self.transcript.session.turns, place)
        if not pinned:
            keys = "Enter" if self.transcript.pointing.walking else "Click"
            return f"{keys} to pin this card, for its details and alternatives"
        if self._can_branch(place):
            return "Choose an alternative to branch the answer from here"
        if session.running is not None:
            return "Alternatives can be chosen once the answer has finished"
        if session.read_only:
            return "This chat is open in another window, so its answers cannot be branched here"
        if found is None or found[0].request is None or session.replaying:
            return "A recorded answer cannot be branched"
        if tokens_before(*found) is None:
            return ""
        return "A different target is chosen, so this answer cannot be branched"

    @Slot(object)
    def _chosen(self, alternative: Alternative) -> None:
        place = self._shown
        found = token_at(self.transcript.session.turns, place)
        if place is not None and found is not None and self._can_branch(place):
            self.branch_wanted.emit(place.turn, tokens_before(*found), alternative.id, alternative.text)

    # Where it stands

    def _corner(self, place: Place, size: QSize) -> QPoint:
        """Returns the card's position: beside the token if it is in view; else beside the focused widget of the panel if its keys
        moved the cursor, or beside the mouse pointer."""
        pointer = self.window.mapFromGlobal(QCursor.pos())
        viewport = self.transcript.viewport()
        area = self.transcript.pointing.area(place).intersected(viewport.rect())
        focused, panel = QApplication.focusWidget(), self._area(self._panel)
        if not area.isEmpty() and viewport.isVisible():
            anchor = QRect(viewport.mapTo(self.window, area.topLeft()), area.size())
            avoid = [anchor] if self.transcript.pointing.walking else [anchor, QRect(pointer - QPoint(4, 4), QSize(8, 8))]
        elif focused is not None and self._panel.isAncestorOf(focused) and not panel.contains(pointer):
            anchor, avoid = self._area(focused), [panel]
        else:
            anchor = QRect(pointer - QPoint(6, 6), QSize(12, 12))
            avoid = [anchor]
        room = visible_part(self.window).adjusted(EDGE, EDGE, -EDGE, -EDGE)
        left, right = viewport.mapTo(self.window, QPoint(0, 0)).x(), viewport.mapTo(self.window, QPoint(viewport.width(), 0)).x()
        if viewport.isVisible() and left <= anchor.center().x() <= right and right - left >= size.width() + 2 * EDGE:
            beside = QRect(room)  # the views beside the conversation stay visible
            beside.setLeft(max(room.left(), left + EDGE))
            beside.setRight(min(room.right(), right - EDGE))
            room = beside if beside.width() >= size.width() else room
        return corner(room, anchor, size, avoid)

    def _area(self, widget: QWidget) -> QRect:
        return QRect(widget.mapTo(self.window, QPoint(0, 0)), widget.size())


def corner(room: QRect, anchor: QRect, size: QSize, avoid: list[QRect]) -> QPoint:
    """Returns the top left corner for a card inside `room`: below, above, to the right or to the left of `anchor`, the first that
    covers nothing of `avoid`, or the one that covers least."""
    left, top = anchor.left() - 20, anchor.top() - 20
    tries = (
        QPoint(left, anchor.bottom() + GAP),
        QPoint(left, anchor.top() - GAP - size.height()),
        QPoint(anchor.right() + GAP, top),
        QPoint(anchor.left() - GAP - size.width(), top),
    )

    def misfit(at: QPoint) -> int:
        """Returns the area of `avoid` in square pixels that the card would cover at this corner, or the nearest one in `room`."""
        placed = QRect(_inside(room, at, size), size)
        covered = [placed.intersected(taken) for taken in avoid]
        return sum(part.width() * part.height() for part in covered if not part.isEmpty())

    return _inside(room, min(tries, key=misfit), size)


def _inside(room: QRect, at: QPoint, size: QSize) -> QPoint:
    return QPoint(
        max(room.left(), min(at.x(), room.right() + 1 - size.width())),
        max(room.top(), min(at.y(), room.bottom() + 1 - size.height())),
    )
