"""The blocks of the transcript, a prompt or an answer, which lay out and paint themselves; how tokens are marked in the text, and
the words above and below an answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QRegion, QTextCharFormat, QTextLayout

from app.conversation.chunks import Box, Chunk, PlacedDivider
from app.conversation.draft_strip import draft_strip
from app.conversation.figure_line import Word, figure_at, in_lines, paint_words
from app.conversation.letter_formats import Style, format_range
from app.conversation.markdown_source import Code, shown
from app.conversation.reading_view import ReadingFlow
from app.conversation.round_motion import RoundMotion
from app.conversation.text_flow import Flow
from app.look.marks import draw_rounded, draw_text, faded, open_box_path
from app.look.theme import Theme, sized
from app.look.wording import RULE_TITLES, drafter_title
from app.session.attachments import in_short
from app.session.session import Answer
from engine.chats import EDITED_WORDS
from engine.lens.pieces import GHOSTS, Ghosts, Kind, Piece, Spot, hidden_kinds
from engine.lens.pieces import folded as with_folds
from engine.lens.shared_wording import FINISH_WORDS
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.wording import noun, seconds

PAD = 14.0
GAP = 26.0
LONGEST_LINE = 50_000
"""Longest line that is rendered as Markdown, in characters."""
OVERHANG = 8.0
"""Pixels by which letters and marks may extend beyond their line."""
BUTTONS = 132.0
"""Width reserved for buttons at the end of an answer's last line, in pixels at a text size of 15."""
CONTINUE = "Continue"
OWN: frozenset[Kind] = frozenset(("correction", "bonus"))
"""The target's own tokens in a round with proposals."""
DROP = 0.2
"""Height above its place from which the target's own token drops, relative to the letters."""


class Block:
    """An item of the column: it has a height and paints itself.

    Attributes:
        top: its y in the document; height: its height including the gap below; both in pixels.
        found: the highlighted search matches, as (start, end) offsets in the flow.
        flow: its text; `origin` is the flow's top left corner relative to the block's.
        motion: the rounds whose verdicts are just appearing.
    """

    def __init__(self, style: Style, width: float) -> None:
        self.style = style
        self.width = width
        self.top = 0.0
        self.height = 0.0
        self.flow = Flow(style, width)
        self.found: list[tuple[int, int]] = []
        self.origin = QPointF(0, 0)
        self.motion = RoundMotion()

    def paint(self, painter: QPainter, clip: QRectF, selection: tuple[int, int] | None) -> None:
        """Paints the part of the block in `clip`, which is relative to the block. `selection` is in offsets of the flow."""
        raise NotImplementedError

    def _paint_flow(self, painter: QPainter, clip: QRectF, selection: tuple[int, int] | None) -> None:
        flow = self.flow
        first = flow.chunk_at(clip.top() - self.origin.y())
        painter.save()
        painter.translate(self.origin)
        for chunk in flow.chunks[first:]:
            if chunk.top > clip.bottom() - self.origin.y():
                break
            self._paint_chunk(painter, chunk, clip.translated(-self.origin), selection)
        painter.restore()

    def _paint_chunk(self, painter: QPainter, chunk: Chunk, clip: QRectF, selection: tuple[int, int] | None) -> None:
        self.flow.paint_under(painter, chunk)
        top, bottom = clip.top() - chunk.top - OVERHANG, clip.bottom() - chunk.top + OVERHANG
        painter.save()
        _clip(painter, chunk, chunk.window)
        painter.save()
        painter.translate(-chunk.offset, chunk.top)
        boxes = [box for box in self.flow.boxes(chunk) if box.rect.bottom() >= top and box.rect.top() <= bottom]
        moves = self._moves(chunk)
        paint_marks(painter, [box for box in boxes if self.motion.is_judged(box.spot)] if moves else boxes, self.style)
        paint_ghosts(painter, self.flow, chunk, self.style, self.motion.is_judged)
        painter.restore()
        if chunk.layout is not None:
            painter.setPen(QColor(self.style.theme.text))
            marked = [
                part
                for found in self.found
                for part in _selected(chunk, found, self.style, f"#50{self.style.theme.correction[1:]}")
            ]
            ranges = [*marked, *(self._moving_ranges(chunk) if moves else ()), *_selected(chunk, selection, self.style)]
            lines = clip.adjusted(0, -OVERHANG, 0, OVERHANG) if self.flow.in_order else QRectF()
            painter.save()
            if moves and (above := self._above_place(boxes)):
                here = QRegion(clip.toAlignedRect().adjusted(0, -round(OVERHANG), 0, round(OVERHANG)))
                for box in above:
                    here -= QRegion(chunk.outside(box.rect).toAlignedRect())
                painter.setClipRegion(here, Qt.ClipOperation.IntersectClip)
            chunk.layout.draw(painter, QPointF(-chunk.offset, chunk.top), ranges, lines)
            painter.restore()
            if moves:
                self._paint_moving(painter, chunk, chunk.layout, above)
        painter.restore()
        for placed in chunk.placed_dividers:
            painter.save()
            _clip(painter, chunk, None if chunk.window is None else (0, self.flow.width))
            painter.translate(0, chunk.top)
            paint_divider(painter, replace(placed, x=placed.x - chunk.offset), self.flow, self.style.theme)
            painter.restore()

    # Rounds whose verdicts are just appearing

    def _moves(self, chunk: Chunk) -> bool:
        """Returns whether any token of a chunk moves."""
        first = self.motion.first
        return first is not None and bool(chunk.runs) and chunk.runs[-1].spot.round >= first

    def _moving_ranges(self, chunk: Chunk) -> list[QTextLayout.FormatRange]:
        """Returns the formats of the letters that wait for their verdict."""
        grey, found = QTextCharFormat(), list[QTextLayout.FormatRange]()
        grey.setForeground(QColor(self.style.theme.dim))
        for run in chunk.runs[bisect_left(chunk.runs, self.motion.first or 0, key=lambda run: run.spot.round) :]:
            if run.kind not in OWN and not self.motion.is_judged(run.spot):
                if found and found[-1].start + found[-1].length == run.start:
                    found[-1].length += run.length  # Qt paints the second of two adjacent ranges without its format
                else:
                    found.append(format_range(run.start, run.length, grey))
        return found

    def _above_place(self, boxes: list[Box]) -> list[Box]:
        """Returns the boxes of the tokens that are on the way to their place."""
        return [box for box in boxes if box.kind in OWN and self._up(box.spot)]

    def _up(self, spot: Spot) -> int:
        """Returns how far a token of the target is above its place, in pixels."""
        return round(DROP * QFontMetricsF(self.style.text).height() * self.motion.drop(spot.round))

    def _paint_moving(self, painter: QPainter, chunk: Chunk, layout: QTextLayout, boxes: list[Box]) -> None:
        """Paints the target's own tokens above their places, and behind the newest rejected proposal the unjudged ones."""
        for box in boxes:
            up = self._up(box.spot)
            painter.save()
            area = chunk.outside(box.rect).translated(0, -up)
            painter.setClipRect(area.toAlignedRect(), Qt.ClipOperation.IntersectClip)
            painter.setOpacity(1 - 0.6 * self.motion.drop(box.spot.round))
            layout.draw(painter, QPointF(-chunk.offset, chunk.top - up), [], area)
            painter.restore()
        newest = self.motion.newest
        if newest is None or self.motion.is_judged(Spot(newest.index, True, 0)):
            return
        for ghost in self.flow.ghosts_above(chunk):
            if ghost.spot.round == newest.index:
                font = self.flow.ghost_font(chunk)
                painter.setFont(font)
                metrics, x = QFontMetricsF(font), chunk.outside(ghost.rect).right()
                for text, _ in draft_strip(newest)[1:]:
                    x += metrics.horizontalAdvance(" ")
                    if x + metrics.horizontalAdvance(text) > self.width:
                        break
                    draw_text(painter, self.style.theme.faint, QPointF(x, chunk.top + ghost.baseline), text)
                    x += metrics.horizontalAdvance(text)


class UserBlock(Block):
    """A prompt, shown as a bubble on the right."""

    def __init__(self, style: Style, width: float, prompt: str) -> None:
        super().__init__(replace(style, line_height=1.35, highlighted=None), width)
        self.prompt = prompt
        widest = min(width * 0.82, 560.0 * style.text.pixelSize() / 15)
        self.flow = Flow(self.style, widest - 2 * PAD)
        self.flow.append([Piece(in_short(prompt), "plain")])
        inner = min(widest - 2 * PAD, self.flow.natural_width)
        self.flow.width = inner  # the lines stay; only dividers and code, which fill the width, become narrower
        self.bubble = QRectF(width - inner - 2 * PAD, 0, inner + 2 * PAD, self.flow.height + 2 * 8)
        self.origin = QPointF(self.bubble.left() + PAD, 8)
        self.below = 0.0
        self.above = ""
        self.height = self.bubble.height() + GAP * 0.75

    def reserve(self, below: float) -> None:
        """Reserves `below` pixels below the bubble for buttons."""
        if below != self.below:
            self.height += below - self.below
            self.below = below

    def divide(self, words: str) -> bool:
        """Puts a line with these words above the bubble, or removes it if `words` is empty; returns whether anything changed."""
        if words == self.above:
            return False
        room = self.flow.divider_room + GAP / 2
        down = room * (bool(words) - bool(self.above))
        self.above = words
        self.bubble.translate(0, down)
        self.origin = self.origin + QPointF(0, down)
        self.height += down
        return True

    def paint(self, painter: QPainter, clip: QRectF, selection: tuple[int, int] | None) -> None:
        """Paints the bubble with the prompt, and the line above it."""
        if self.above:
            paint_line(painter, self.above, self.width, self.flow, self.style.theme)
        draw_rounded(painter, self.bubble, 13, QColor(self.style.theme.raised))
        self._paint_flow(painter, clip, selection)


class AnswerBlock(Block):
    """One answer: a header with model and settings, the text with the marks of its tokens, and the figures below.

    Attributes:
        markdown: whether the text is formatted as Markdown.
        folds: whether the thoughts can be folded; a line above the answer then says how long they took.
        reading: whether the answer is shown in the reading view, without the tokens' marks, once it is done.
        reserved: pixels at the right end of the lines above the text that are reserved for buttons.
        header: the lines above the text.
        changed_top: top of the area that the last `grow` changed, in pixels from the top of the block.
        may_move: whether verdicts may appear one after the other.
    """

    markdown = True
    folds = True

    def __init__(self, style: Style, width: float, answer: Answer, ghosts: Ghosts, reading: bool = False) -> None:
        super().__init__(style, width)
        self.reading = reading
        self.ghosts = ghosts
        self.flow = self._token_flow()
        self.changed_top = 0.0
        self.answer = answer
        self.may_move = False
        self._rounds = len(answer.rounds)
        self.shown = 0
        self._divided_by = 0  # dividers that are set in the text
        self._endless: tuple[int, bool] | None = None
        self.status = ""
        self.fraction: float | None = None
        self.reserved = 0.0
        self.small = sized(style.text, max(9, style.text.pixelSize() * 0.8))
        self._shown_header: list[Word] = []
        self.header: list[list[Word]] = []
        self.foot = 0.0
        self.grow()

    @property
    def line(self) -> float:
        """Height of the first line above and of the first one below the text."""
        return QFontMetricsF(self.small).height() + 10

    @property
    def head(self) -> float:
        """Height of the header above the text; it wraps into several lines where the column is too narrow."""
        return self.line + (len(self.header) - 1) * self.line_step

    @property
    def line_step(self) -> float:
        """Distance of two lines above or below the text."""
        return QFontMetricsF(self.small).height() + 3

    @property
    def fold(self) -> float:
        """Height of the line that says how long the model thought; 0 if it did not."""
        return self.line + 6 if self.folds and self.answer.has_thought else 0.0

    def reserve(self, width: float) -> None:
        """Leaves room for buttons at the right end of the lines above the text."""
        if width != self.reserved:
            self.reserved, self._shown_header = width, []
            self._measure()

    def grow(self) -> None:
        """Appends the pieces that have arrived since the last call."""
        pieces = self.answer.text.pieces
        folded = self.answer.folded if self.folds else 0
        undecided = folded and self.answer.text.thought.state == "undecided"
        changed = self.flow.height if self.shown else 0.0
        offsets = self.flow.code_offsets if self.switches_view else {}
        if self.switches_view:
            kept = pieces[folded:]
            self.flow = ReadingFlow(self.style, self.width, kept) if self.shows_reading_view else self._token_flow()
            self.shown = len(pieces) if self.shows_reading_view else 0
            self._divided_by, changed = 0, 0.0
        if self.shown < len(pieces) and not undecided:
            fresh = pieces[max(self.shown, folded) :]
            hidden = hidden_kinds(self.ghosts, self.style.highlighted)
            for part in self._divided(fresh):
                for stretch in self._behind_thought(part):
                    visible = [piece for piece in stretch if self.shows(piece, hidden)]
                    self.flow.append(visible if self.style.highlighted == "unjudged" else with_folds(visible))
                    changed = min(changed, self.flow.changed_top)
            self.shown = len(pieces)
        if not self.answer.running and self.shown:
            self.flow.finish()
            changed = min(changed, self.flow.changed_top)
        self.flow.scroll_code(offsets)
        self.changed_top = self.origin.y() + min(changed, self._step_motion())
        self._measure()

    def _step_motion(self) -> float:
        """Moves on; returns the top of the area of the flow that has moved, its height if nothing has."""
        first, arrived, self._rounds = self.motion.first, self.answer.rounds[self._rounds :], len(self.answer.rounds)
        if self.may_move and self.answer.running and self.style.highlighted is None:
            self.motion.step(arrived)
        else:
            self.motion.settle()
        if first is None:
            first = self.motion.first
        if first is None or not self.shown:
            return self.flow.height
        for chunk in reversed(self.flow.chunks):
            at = bisect_left(chunk.runs, first, key=lambda run: run.spot.round)
            if at and chunk.layout is not None:  # an earlier round is in this chunk, too
                line = chunk.layout.lineForTextPosition(chunk.runs[min(at, len(chunk.runs) - 1)].start)
                return chunk.top + line.y() - OVERHANG if line.isValid() else chunk.top
        return 0.0

    def _token_flow(self) -> Flow:
        return Flow(replace(self.style, ghosts_above=self.ghosts == "above"), self.width, self.markdown)

    def shows(self, piece: Piece, hidden: frozenset[Kind]) -> bool:
        """Returns whether a piece is in the text. `hidden`: the kinds that the ghost setting leaves out."""
        return piece.kind not in hidden

    def _measure(self) -> None:
        """Updates the position of the text and the height of the block. If the header changed, the whole block is repainted."""
        words = self._head_words()
        if words != self._shown_header:
            self._shown_header = words
            self.header = in_lines(self.small, self.width - self.reserved, words)
            self.changed_top = 0.0
        above = self.head + self.fold
        if above != self.origin.y():
            self.changed_top = 0.0
        self.origin = QPointF(0, above)
        body = self.flow.height if self.flow.length else 0.0
        self.foot = self.line + (max(1, len(self.footer())) - 1) * self.line_step
        self.height = above + body + self.foot + 10 + GAP

    def _head_words(self) -> list[Word]:
        theme = self.style.theme
        settings: list[Word] = [(f"  {words}", theme.faint, False) for words in settings_words(self.answer)]
        return [(self.answer.model, theme.dim, True), *settings]

    def _divided(self, fresh: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
        """Yields the new pieces in parts, split where rule, drafter or gamma change. Puts a divider into the text between two
        parts."""
        for divider in self.answer.dividers[self._divided_by :]:
            cut = next((place for place, piece in enumerate(fresh) if piece.spot.round >= divider.first), None)
            if cut is None:
                break
            if cut:
                yield fresh[:cut]
            fresh = fresh[cut:]
            self.flow.divide(divider.label, self.style.theme.rule(divider.rule))
            self._divided_by += 1
        yield fresh

    def _behind_thought(self, part: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
        """Splits the pieces into thought and answer, with a divider between them while the thought is shown."""
        text = self.answer.text
        if self.fold and self.answer.shows_thought and text.answer_at is not None:
            first = text.pieces[text.answer_at]
            cut = next((place for place, piece in enumerate(part) if piece is first), None)
            if cut is not None:
                yield part[:cut]
                part = part[cut:]
                self.flow.divide("Answer", self.style.theme.faint)
        yield part

    @property
    def shows_reading_view(self) -> bool:
        """Whether the answer is to be shown in the reading view now.

        The token view is shown while the answer runs or tokens are highlighted. A text with a very long line also stays in the
        token view, because laying out such a line as one paragraph would block the window for seconds.
        """
        wanted = self.reading and self.style.highlighted is None and not self.answer.running and bool(self.answer.text.pieces)
        return wanted and not self._has_endless_line()

    def _has_endless_line(self) -> bool:
        text = self.answer.text.text
        if self._endless is None or self._endless[0] != len(text):
            self._endless = (len(text), max(map(len, text.split("\n"))) > LONGEST_LINE)
        return self._endless[1]

    @property
    def switches_view(self) -> bool:
        """Whether the next `grow` switches between the token view and the reading view."""
        shows = isinstance(self.flow, ReadingFlow)
        return shows != self.shows_reading_view or (shows and self.shown != len(self.answer.text.pieces))

    def code_text(self, code: Code) -> str:
        """Returns the text of a code block as the model wrote it; the view replaces its tabs with blanks."""
        text = self.answer.text
        source = text.text[text.answer_start :] if self.answer.folded else text.text
        lines = source.replace("\r\n", "\n").split("\n")[code.first + code.fenced :][: code.text.count("\n") + 1]
        return "\n".join(lines) if shown("\n".join(lines)) == code.text else code.text

    @property
    def footer_top(self) -> float:
        """Top of the figures, in pixels from the top of the block; they are `foot` pixels high."""
        return self.height - GAP - self.foot

    def paint(self, painter: QPainter, clip: QRectF, selection: tuple[int, int] | None) -> None:
        """Paints the header, the text so far, and the figures below it."""
        if clip.top() < self.head:
            self._paint_header(painter)
        if self.shown:
            self._paint_flow(painter, clip, selection)
        if clip.bottom() > self.footer_top or not self.shown:
            self._paint_footer(painter)

    def _paint_header(self, painter: QPainter) -> None:
        for place, words in enumerate(self.header):
            baseline = self.line - 11 + place * self.line_step
            paint_words(painter, self.small, 0, baseline, self.width - self.reserved, words)

    def _paint_footer(self, painter: QPainter) -> None:
        theme, answer = self.style.theme, self.answer
        baseline = self.footer_top + self.line - 8
        if answer.running and not self.shown:
            paint_words(painter, self.small, 0, self.head + self.line - 8, self.width, [(self.status, theme.dim, False)])
            if self.fraction is not None:
                track = QRectF(0, self.head + self.line + 1, min(220.0, self.width), 3)
                draw_rounded(painter, track, 1.5, QColor(theme.line))
                painter.setBrush(QColor(theme.accent))
                painter.drawRoundedRect(QRectF(track.left(), track.top(), track.width() * self.fraction, 3), 1.5, 1.5)
            return
        for place, words in enumerate(self.footer()):
            paint_words(painter, self.small, 0, baseline + place * self.line_step, self.footer_width, words)

    def footer(self) -> list[list[Word]]:
        """Returns the figures, wrapped into several lines where there is too little room beside the buttons."""
        theme = self.style.theme
        return in_lines(self.small, self.footer_width, footer_words(self.answer, theme.text, theme.dim, theme.rejected))

    @property
    def footer_width(self) -> float:
        """Width of the figures, beside the buttons."""
        return self._beside_buttons - (self.continue_width if self.answer.ended_early and self.may_show_continue else 0)

    @property
    def _beside_buttons(self) -> float:
        return self.width - BUTTONS * self.style.text.pixelSize() / 15

    @property
    def may_show_continue(self) -> bool:
        """Whether there is room for the Continue button beside the longest words of the footer."""
        longest = QFontMetricsF(self.small).horizontalAdvance(f"  {INVARIANT}")
        return self._beside_buttons - self.continue_width >= longest

    @property
    def continue_width(self) -> float:
        """Width of the Continue button and the gap beside it, in pixels."""
        return QFontMetricsF(self.small).horizontalAdvance(CONTINUE) + 2.6 * self.style.text.pixelSize()

    def figure_at(self, x: float, y: float) -> str:
        """Returns the key of the definition of the figure at a point, with `y` from the top of the figures; empty if there is
        none."""
        lines = self.footer() if self.answer.tally.rounds else []
        if not lines:
            return ""
        line = lines[min(len(lines) - 1, max(0, int((y - self.line) // self.line_step) + 1))]
        words = figure_at(self.small, x, self.footer_width, line)
        return "" if not words else "invariant" if INVARIANT in words else "answer"


def settings_words(answer: Answer) -> list[str]:
    """Returns the settings of an answer; the values of a setting that changed are joined by arrows, in their order."""
    if answer.edited:
        return [EDITED_WORDS]
    if answer.foreign:
        return []
    drafters = dict.fromkeys([answer.drafter, *(change.drafter for change in answer.changes)])
    gammas = dict.fromkeys([answer.options.gamma, *(change.gamma for change in answer.changes)])
    given = () if answer.request is None else answer.request.given
    how = "branched" if answer.continues is None else "continued"
    words = [f"{how} at token {len(given)}"] if given else []
    words.append(" → ".join("no drafter" if name == NO_DRAFTER else drafter_title(name) for name in drafters))
    if list(drafters) != [NO_DRAFTER]:
        words.append(" → ".join(RULE_TITLES[rule] for rule in dict.fromkeys(answer.rules or [answer.options.rule])))
        words.append("gamma " + " → ".join(str(gamma) for gamma in gammas))
        if isinstance(answer.options.budget, int):
            words.append(f"tree of {answer.options.budget}")
    words.append(f"temperature {answer.options.temperature:g}")
    if answer.options.seed is not None:
        words.append(f"seed {answer.options.seed}")
    return words


INVARIANT = "any drafter gives this text"
STOPPED_EMPTY = "Stopped before the first token. Regenerate tries again"
"""Shown in place of an answer without text; the Regenerate button is in the same line."""


def footer_words(answer: Answer, strong: str, dim: str, alarm: str) -> list[tuple[str, str, bool]]:
    """Returns length, duration and ending of an answer as (words, colour, bold). The panel shows its other figures."""
    summary = answer.tally.summary
    words: list[tuple[str, str, bool]] = []
    if summary.rounds:
        spent = summary.seconds if answer.result is None else answer.result.seconds
        words += [(f"{summary.emitted:,}", strong, True), (f"{noun(summary.emitted, 'token')} in", dim, False)]
        words.append((seconds(spent), strong, True))
    if answer.finish == "cancelled" and not answer.text.text:
        words.append((STOPPED_EMPTY, dim, False))
    elif answer.foreign:
        words.append(("Imported", dim, False))
    elif answer.finish is not None:
        words.append((f"  {FINISH_WORDS[answer.finish]}", dim, False))
        if summary.proposals and answer.invariant and answer.options.seed is not None:
            words.append((f"  {INVARIANT}", dim, False))
    elif answer.edited:
        words.append(("Edited by you, so no statistics", dim, False))
    elif answer.ending:
        words.append((f"  {answer.ending}", dim, False))
    if answer.state == "failed":
        words.append((f"  {'stopped by an error' if summary.rounds else 'not answered'}", alarm, False))
    return words


def _clip(painter: QPainter, chunk: Chunk, window: tuple[float, float] | None) -> None:
    """Restricts painting to the x range `window` at the height of a chunk; does nothing if `window` is None."""
    if window is not None:
        left, right = window
        area = QRectF(left, chunk.top - OVERHANG, right - left, chunk.height + 2 * OVERHANG)
        painter.setClipRect(area, Qt.ClipOperation.IntersectClip)


def paint_divider(painter: QPainter, placed: PlacedDivider, flow: Flow, theme: Theme) -> None:
    """Paints a divider: a thin line across the text with words, and a vertical stroke where the text after it begins."""
    metrics = QFontMetricsF(flow.divider_font)
    words = metrics.elidedText(placed.divider.words, Qt.TextElideMode.ElideRight, flow.width - 16)
    wide = metrics.horizontalAdvance(words)
    left = max(8.0, min(placed.x + 8, flow.width - wide - 8))
    if placed.x < left + wide and left < placed.x + 4:
        left = max(8.0, placed.x - 8 - wide)
    middle = round(placed.top + flow.divider_room / 2)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    colour = QColor(placed.divider.colour)
    painter.fillRect(QRectF(0, middle, left - 6, 1), colour)
    painter.fillRect(QRectF(left + wide + 6, middle, max(0.0, flow.width - left - wide - 6), 1), colour)
    crosses = left - 4 < placed.x < left + wide + 4  # the stroke then begins below the words
    top = middle + metrics.height() / 2 if crosses else middle
    painter.fillRect(QRectF(round(placed.x) - 2, top, 2, placed.bottom - top), colour)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setFont(flow.divider_font)
    draw_text(painter, theme.dim, QPointF(left, middle + metrics.ascent() / 2 - 1), words)


def paint_line(painter: QPainter, words: str, width: float, flow: Flow, theme: Theme) -> None:
    """Paints a thin line across the column at the top of a block, with words in its middle."""
    metrics = QFontMetricsF(flow.divider_font)
    words = metrics.elidedText(words, Qt.TextElideMode.ElideRight, width - 40)
    wide = metrics.horizontalAdvance(words)
    left, middle = (width - wide) / 2, round(flow.divider_room / 2)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    for start, end in ((0.0, left - 8), (left + wide + 8, width)):
        painter.fillRect(QRectF(start, middle, end - start, 1), QColor(theme.correction))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setFont(flow.divider_font)
    draw_text(painter, theme.dim, QPointF(left, middle + metrics.ascent() / 2 - 1), words)


def paint_marks(painter: QPainter, boxes: Iterable[Box], style: Style) -> None:
    """Paints the marks of tokens, or of the highlighted kind only: tint, underline, dots, dashes. Rejected tokens have no mark:
    their font strikes them out."""
    by_kind: dict[Kind, list[Box]] = {}
    for box in boxes:
        if style.highlighted in (None, box.kind):
            by_kind.setdefault(box.kind, []).append(box)
    for kind, paint in _MARKS.items():
        if kind in by_kind:
            paint(painter, by_kind[kind], style.theme)


def paint_ghosts(painter: QPainter, flow: Flow, chunk: Chunk, style: Style, is_judged: Callable[[Spot], bool]) -> None:
    """Paints the rejected tokens above the text of a chunk, struck out once judged; faint while another kind is highlighted."""
    ghosts = flow.ghosts_above(chunk)
    if not ghosts:
        return
    theme = style.theme
    font = flow.ghost_font(chunk)
    painter.setFont(font)
    metrics = QFontMetricsF(font)
    colour = theme.ghost if style.highlighted is None else theme.rejected if style.highlighted == "rejected" else theme.muted
    for ghost in ghosts:
        judged = is_judged(ghost.spot)
        draw_text(painter, colour if judged else theme.dim, QPointF(ghost.rect.left(), ghost.baseline), ghost.text)
        if not judged:
            continue
        middle = ghost.baseline - metrics.xHeight() / 2
        painter.setPen(QPen(faded(colour, 125), 1))  # thinner than the font's own, which hides small letters
        painter.drawLine(QPointF(ghost.rect.left() - 1, middle), QPointF(ghost.rect.right() + 1, middle))


def _tint(painter: QPainter, boxes: list[Box], theme: Theme) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(theme.accepted_tint))
    for box in boxes:
        area = box.rect.adjusted(0.5, -1, -0.5, 1)
        if box.open_left or box.open_right:
            painter.drawRect(area)
        else:
            painter.drawRoundedRect(area, 3, 3)


def _underline(painter: QPainter, boxes: list[Box], theme: Theme) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    colour = QColor(theme.correction)
    for box in boxes:
        painter.fillRect(QRectF(box.rect.left() + 0.5, box.baseline + 4, box.rect.width() - 1, 1), colour)


def _dots(painter: QPainter, boxes: list[Box], theme: Theme) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    pen = QPen(QColor(theme.bonus), 1.4, Qt.PenStyle.CustomDashLine)
    pen.setDashPattern([0.01, 2.6])
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    painter.setPen(pen)
    for box in boxes:
        y = box.baseline + 4.5
        painter.drawLine(QPointF(box.rect.left() + 2, y), QPointF(box.rect.right() - 1, y))


def _dashes(painter: QPainter, boxes: list[Box], theme: Theme) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    pen = QPen(faded(theme.unjudged, 110), 1, Qt.PenStyle.CustomDashLine)
    pen.setDashPattern([2.0, 2.0])
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for box in boxes:
        painter.drawPath(open_box_path(box.rect.adjusted(0, 0.5, 0, -0.5), 3, box.open_left, box.open_right))


def _chosen(painter: QPainter, boxes: list[Box], theme: Theme) -> None:
    """Paints a frame with a thick bottom edge: the mark of a token that the user chose."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(theme.accent), 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for box in boxes:
        painter.drawPath(open_box_path(box.rect.adjusted(0, 0.5, 0, -0.5), 3, box.open_left, box.open_right))
        painter.fillRect(QRectF(box.rect.left() + 1, box.rect.bottom() - 2.5, box.rect.width() - 2, 2), QColor(theme.accent))


_MARKS: dict[Kind, Callable[[QPainter, list[Box], Theme], None]] = {
    "accepted": _tint,
    "correction": _underline,
    "bonus": _dots,
    "unjudged": _dashes,
    "chosen": _chosen,
}


def _selected(
    chunk: Chunk, selection: tuple[int, int] | None, style: Style, background: str = ""
) -> list[QTextLayout.FormatRange]:
    """Returns the formats of the selected part of a chunk. Ghosts in it stay dim, and struck out if rejected: they are not
    copied."""
    if selection is None or selection[1] <= chunk.start or selection[0] >= chunk.start + chunk.length:
        return []
    start, end = max(0, selection[0] - chunk.start), min(chunk.length, selection[1] - chunk.start)
    ranges = [_selected_range(start, end, style.theme.text, background or style.theme.selection)]
    for run in chunk.runs:
        if run.kind in GHOSTS and run.start < end and run.end > start:
            ranges.append(
                _selected_range(max(start, run.start), min(end, run.end), style.theme.dim, background or style.theme.selection)
            )
    return ranges


def _selected_range(start: int, end: int, colour: str, background: str) -> QTextLayout.FormatRange:
    look = QTextCharFormat()
    look.setBackground(QColor(background))
    look.setForeground(QColor(colour))
    return format_range(start, end - start, look)
