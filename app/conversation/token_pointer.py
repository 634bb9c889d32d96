"""Points at tokens and pins them with mouse and keys, outlines them, and scrolls to them: connects a view of answers with the
token cursor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from PySide6.QtCore import QObject, QPointF, QRect, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPen

from app.conversation.answer_view import AnswerView
from app.conversation.blocks import AnswerBlock
from app.conversation.chunks import Box
from app.conversation.draft_strip import DraftStrip, draft_strip
from app.conversation.token_boxes import fragments_of, gap_before, in_window, spot_at, spot_before, spot_from
from app.look.marks import draw_bracket, open_box_path
from app.session.cursor import Cursor, Place
from app.session.token_navigation import neighbour, place_of, spot_of
from engine.lens.pieces import GHOSTS, Kind, Spot, fold_of, kind_of, spot_of_emitted

LAST = 2**31
LANDMARKS = 40
"""Maximum number of tokens searched for one that has letters both in the token view and in the reading view."""
MARGIN = 60
"""Minimum distance in pixels of a token that a key pointed at from the edge of the view."""


class TokenPointer(QObject):
    """Moves the cursor for the transcript.

    Attributes:
        walking: whether a key pointed at the token; it then stays when the mouse pointer leaves the text.

    Signals:
        walked: a key has pointed at a token, or pointing and pinning ended.
        entered: a key asks to move the focus into the card of the pinned token.
    """

    walked = Signal()
    entered = Signal()

    def __init__(self, view: AnswerView, cursor: Cursor, parent: QObject) -> None:
        super().__init__(parent)
        self.view = view
        self.cursor = cursor
        self.walking = False
        self._hovering = False
        self._walked_to: Place | None = None
        self._painted = QRect()
        view.left.connect(self.leave)
        cursor.moved.connect(self._moved)
        cursor.pinned.connect(self._pinned)
        cursor.marked.connect(self._marked)

    # Where things are

    def place_at(self, point: QPointF) -> Place | None:
        """Returns the token at a point of the viewport."""
        below = point.y() + self.view.verticalScrollBar().value()
        if (found := self.view.turn_at(below)) is None:
            return None
        turn, block = found
        spot = spot_at(block.flow, QPointF(point.x() - self.view.column.left(), below - block.top) - block.origin)
        return None if spot is None else place_of(turn, spot)

    def boxes(self, place: Place | None) -> list[QRectF]:
        """Returns the boxes of a place's tokens in the viewport, visible or not; one box per line for a whole round. The box of a
        token that is scrolled out of its code block has width 0 and is at the edge."""
        return [box.rect for box in self._fragments(place)]

    def _fragments(self, place: Place | None) -> list[Box]:
        if place is None or (block := self.view.answer_block(place.turn)) is None:
            return []
        shift = self.view.corner_of(block)
        found = [in_window(block.flow, box) for box in self._in_flow(place, block)]
        return [box._replace(rect=box.rect.translated(shift)) for box in found]

    def _in_flow(self, place: Place, block: AnswerBlock) -> list[Box]:
        """Returns the boxes of a place's tokens relative to the flow, visible or not."""
        if not block.shown:
            return []
        if place.whole_round:
            found = _lines_of(fragments_of(block.flow, Spot(place.round, False, 0), Spot(place.round, True, LAST)))
        elif (spot := spot_of(place, block.answer)) is None:
            return []
        elif (ghost := block.flow.ghost_above(spot)) is not None:
            found = [Box(ghost.rect.adjusted(-1, 2, 1, -1), ghost.baseline, "rejected", spot)]
        elif not (found := fragments_of(block.flow, spot, spot)) and block.answer.text.place_of(spot) is not None:
            found = self._without_letters(block, spot)
        return found

    def _without_letters(self, block: AnswerBlock, spot: Spot) -> list[Box]:
        """Returns the box of a token without letters of its own, relative to the flow: that of its fold, or a gap."""
        round_ = block.answer.rounds[spot.round]
        kind = kind_of(round_, spot)
        if kind in self._hidden(block):
            return []
        fold = fold_of(round_) if kind == "unjudged" else spot
        gap = gap_before(block.flow, spot)
        return fragments_of(block.flow, fold, fold) or [Box(gap, gap.bottom(), "plain", spot)]

    def _hidden(self, block: AnswerBlock | None) -> frozenset[Kind]:
        """Returns the kinds that are left out of an answer's text; in the reading view, all ghosts."""
        return GHOSTS if block is not None and block.shows_reading_view else self.view.hidden

    def area(self, place: Place | None) -> QRect:
        """Returns the bounding rectangle of a place in the viewport; empty if it is not shown. For a token that is scrolled out
        of its code block, it is the edge beyond which the token lies."""
        area = QRectF()
        for box in self.boxes(place):
            area = area.united(box if box.width() else box.adjusted(-0.5, 0, 0.5, 0))
        return area.toAlignedRect()

    def rest_of_draft(self, place: Place | None) -> DraftStrip | None:
        """Returns the unjudged proposals of the round pointed at, above the text; None where the text shows them or there are
        none."""
        block = None if place is None else self.view.answer_block(place.turn)
        if place is None or block is None or not block.shown or not block.flow.style.ghosts_above:
            return None
        if block.shows_reading_view or "unjudged" not in self.view.hidden or place.round >= len(block.answer.rounds):
            return None
        round_ = block.answer.rounds[place.round]
        tokens = draft_strip(round_)
        if not any(kind == "unjudged" for _, kind in tokens):
            return None
        rejected, own = Spot(round_.index, False, round_.accepted), spot_of_emitted(round_, len(round_.emitted) - 1)
        ghost = block.flow.ghost_above(rejected)
        boxes = [] if ghost is not None else fragments_of(block.flow, own, own)
        at = ghost.rect if ghost is not None else boxes[0].rect if boxes else None
        if at is None:
            return None
        font = block.flow.ghost_font(block.flow.chunks[block.flow.chunk_at(at.center().y())])
        bottom = at.bottom() if ghost is not None else at.top()
        return DraftStrip.placed(tokens, font, QPointF(at.left(), bottom) + self.view.corner_of(block), self.view.column)

    # Mouse

    def hover(self, point: QPointF) -> None:
        """Points the cursor at the token under the mouse pointer; if there is none, a token that was pointed at by key stays."""
        place = self.place_at(point)
        if place is None and self.walking:
            return
        self.walking = False
        self._hovering = place is not None
        self.cursor.point(place)

    @Slot()
    def leave(self) -> None:
        """Ends hovering, because the mouse pointer left or the text under it moved."""
        if self._hovering:
            self._hovering = False
            self.cursor.leave()

    def click(self, point: QPointF) -> None:
        """Pins a token; a click on the pinned one, or beside the text, unpins it."""
        place = self.place_at(point)
        self.cursor.pin(None if place == self.cursor.pin_place else place)

    def let_go(self) -> None:
        """Ends all pointing and pinning, and emits `walked`."""
        self.walking = False
        self.cursor.pin(None)
        self.cursor.leave()
        self.walked.emit()

    # Keys

    @property
    def holds(self) -> bool:
        """Whether there is a pinned token, or one pointed at by key, that Escape would release."""
        return self.walking or self.cursor.pin_place is not None

    def key(self, event: QKeyEvent) -> bool:
        """Moves the cursor with the arrow keys (with Ctrl by round) and pins with Enter. Returns False for other keys."""
        key, modifiers = Qt.Key(event.key()), event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        by = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(key)
        if by is not None and modifiers in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier):
            self.walk(by, rounds=modifiers == Qt.KeyboardModifier.ControlModifier)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.cursor.place is not None:
            self.cursor.pin(self.cursor.place)
            self.entered.emit()
        else:
            return False
        return True

    def walk(self, by: int, rounds: bool = False) -> None:
        """Moves the cursor to the previous (-1) or next (1) token or round. Starts at the cursor, or else at the tokens in
        view."""
        place, turns = self.cursor.place, self.view.session.turns
        hidden = self._hidden(None if place is None else self.view.answer_block(place.turn))
        target = self._in_view(by) if place is None else neighbour(turns, place, by, hidden, rounds)
        if target is not None:
            self.go(target)

    def go(self, target: Place) -> None:
        """Moves the cursor to a token as a key does: the pin moves along."""
        self.walking, self._walked_to = True, target
        if self.cursor.pin_place is not None:
            self.cursor.pin(target)
        self.cursor.point(target)
        self.show(target)
        self.walked.emit()

    def stay(self, place: Place | None) -> None:
        """Points at a place as a key does, until a key or the mouse points at another one."""
        self.walking, self._walked_to = place is not None, place
        self.cursor.point(place)

    def _in_view(self, by: int) -> Place | None:
        """Returns the first token in view, or when going back the last one."""
        turns, view = self.view.session.turns, self.view
        height = view.viewport().height()
        edge = view.verticalScrollBar().value() + (0 if by > 0 else height)
        for turn in range(len(turns)) if by > 0 else reversed(range(len(turns))):
            block = view.answer_block(turn)
            if block is None or not block.shown:
                continue
            start = block.top + block.origin.y()
            if by > 0 and start + block.flow.height > edge:
                spot = spot_from(block.flow, edge - start)
            elif by < 0 and start < edge:
                spot = spot_before(block.flow, edge - start)
            else:
                continue
            if spot is not None:
                return place_of(turn, spot)
        return neighbour(turns, Place(0, -1), 1, view.hidden) if turns else None

    def landmarks(self) -> list[tuple[Place, int]]:
        """Returns the pinned token if it is in view, or else the first tokens in view, with their y in the viewport.

        `return_to` restores the scroll position of another view of the same text from them.
        """
        pinned = self.cursor.pin_place
        if pinned is not None and self.view.viewport().rect().intersects(self.area(pinned)):
            return [(pinned, self.area(pinned).top())]
        place, found = self._in_view(1), list[tuple[Place, int]]()
        while place is not None and len(found) < LANDMARKS:
            found.append((place, self.area(place).top()))
            place = neighbour(self.view.session.turns, place, 1, GHOSTS)
        return found

    def return_to(self, landmarks: list[tuple[Place, int]]) -> None:
        """Scrolls so that the first landmark with letters in this view is at its former y."""
        lettered = (each for each in landmarks if self._letters(each[0]))
        place, top = next(lettered, landmarks[0] if landmarks else (None, 0))
        if place is not None and not (area := self.area(place)).isEmpty():
            bar = self.view.verticalScrollBar()
            bar.setValue(bar.value() + area.top() - top)
            if place == self.cursor.pin_place:
                self._reveal(place)

    def _letters(self, place: Place) -> bool:
        block = self.view.answer_block(place.turn)
        spot = None if block is None else spot_of(place, block.answer)
        return block is not None and spot is not None and bool(fragments_of(block.flow, spot, spot))

    def show(self, place: Place) -> None:
        """Scrolls as far as needed to show a place, and its code block sideways; without an animation."""
        self._reveal(place)
        area, bar = self.area(place), self.view.verticalScrollBar()
        height = self.view.viewport().height()
        if area.isEmpty():
            return
        if area.top() < MARGIN:
            bar.setValue(bar.value() + area.top() - MARGIN)
        elif area.bottom() > height - MARGIN:
            bar.setValue(bar.value() + area.bottom() - height + MARGIN)

    def _reveal(self, place: Place) -> None:
        """Scrolls the code block of a place sideways until the place is visible."""
        block = self.view.answer_block(place.turn)
        if block is not None and (found := self._in_flow(place, block)) and block.flow.reveal(found[0].rect):
            self.view.code_moved()

    # What is shown

    def check(self) -> None:
        """Clears the cursor if the answer of its place no longer exists."""
        turns = self.view.session.turns
        for place in (self.cursor.place, self.cursor.pin_place):
            if place is not None and (place.turn >= len(turns) or place.round >= len(turns[place.turn].answer.rounds)):
                self.cursor.forget()
                self.walking = False

    def paint(self, painter: QPainter) -> None:
        """Outlines the pinned token and, with a thinner line, the one pointed at. Marked tokens get a bracket over them."""
        theme = self.view.theme
        for marked in self._marks_in_view():
            for box in self.boxes(marked):
                if box.width():
                    draw_bracket(painter, box, theme)
        pinned, place = self.cursor.pin_place, self.cursor.place
        if (rest := self.rest_of_draft(place or pinned)) is not None:
            rest.paint(painter, theme)
        if pinned is not None and pinned != place:
            _outline(painter, self._fragments(pinned), QPen(QColor(theme.accent), 2))
        if place is not None:
            _outline(painter, self._fragments(place), QPen(QColor(theme.text), 2 if place == pinned else 1.4))

    def _marks_in_view(self) -> Iterator[Place]:
        """Yields the marked places of the rounds in view, at a cost that does not depend on the number of marks."""
        marks = self.cursor.marks
        any_place = next(iter(marks.values()), None)
        if any_place is None or (block := self.view.answer_block(any_place.turn)) is None or not block.shown:
            return
        top = self.view.verticalScrollBar().value() - block.top - block.origin.y()
        first, last = spot_from(block.flow, top), spot_before(block.flow, top + self.view.viewport().height())
        if first is None or last is None:
            return
        for round_ in range(max(0, first.round - 1), last.round + 2):
            if (place := marks.get(round_)) is not None:
                yield place

    @Slot(object)
    def _moved(self, place: Place | None) -> None:
        if place is None:
            self.walking = self._hovering = False
        elif place != self._walked_to:
            self.walking = False  # the mouse points elsewhere, perhaps in another view
        self.repaint()

    @Slot(object)
    def _pinned(self, place: Place | None) -> None:
        """Scrolls to a place that was pinned in another view."""
        self.repaint()
        if place is None or self.walking or self._hovering:
            return
        self._reveal(place)
        area, bar = self.area(place), self.view.verticalScrollBar()
        height = self.view.viewport().height()
        if not area.isEmpty() and (area.top() < 0 or area.bottom() > height):
            bar.setValue(bar.value() + area.center().y() - height // 2)

    @Slot()
    def _marked(self) -> None:
        self.view.viewport().update()

    def repaint(self) -> None:
        """Repaints only the areas of the previous and the new outlines."""
        area = self.area(self.cursor.place).united(self.area(self.cursor.pin_place))
        if (rest := self.rest_of_draft(self.cursor.place or self.cursor.pin_place)) is not None:
            area = area.united(rest.rect.toAlignedRect())
        if not area.isEmpty():
            area.adjust(-5, -5, 5, 5)
        self.view.viewport().update(self._painted.united(area))
        self._painted = area


def _lines_of(boxes: Iterable[Box]) -> list[Box]:
    """Joins adjacent boxes; if a round continues on another line, its box is open at that end."""
    lines: list[Box] = []
    for box in boxes:
        if lines and abs(lines[-1].rect.center().y() - box.rect.center().y()) < box.rect.height() / 2:
            lines[-1] = lines[-1].united(box)
        else:
            if lines:
                lines[-1], box = lines[-1]._replace(open_right=True), box._replace(open_left=True)
            lines.append(box)
    return lines


def _outline(painter: QPainter, boxes: list[Box], pen: QPen) -> None:
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for box in boxes:
        if box.rect.width():
            painter.drawPath(open_box_path(box.rect.adjusted(-1, -2, 1, 2), 4, box.open_left, box.open_right))
    painter.restore()
