"""One column of a comparison: its settings, figures, relation to another text, the text itself and its rounds; and the links of
the columns by answer position."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from html import escape

from PySide6.QtCore import QRect, Qt, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QFont, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy, QStackedWidget, QWidget

from app.compare.column_text import CompareText, mark_colour
from app.compare.comparison import LETTERS, Column, ColumnSetup, Comparison, Kind, Relation
from app.compare.controls import ColumnControls
from app.compare.findings import paired_of
from app.compare.round_strip import RoundStrip
from app.compare.sample_chart import SampleChart
from app.compare.sample_tally import SampleTally
from app.look import theme as themes
from app.look.theme import DARK, Theme
from app.look.widgets import ElidedLabel, icon_button, in_column, in_row, named, plain_tip, restyle, tint
from app.look.wording import DEFINITIONS, number
from app.session.cursor import Cursor, Place
from app.session.session import Answer
from app.session.token_navigation import place_of, spot_of
from engine.lens.pieces import visible
from engine.lens.rule_comparison import PairedAcceptance, share
from engine.lens.shared_wording import FINISH_WORDS
from engine.types import EXPECTED_RULES, Rule
from engine.values.wording import amount, noun

FIGURES = ("throughput", "speed_up", "alpha", "expected_acceptance", "tau")
POINT = "Hover over a token, or move with Left and Right, to see its verdict in every column."
VERDICT_LINES = 3
NARROW = 420
IDLE = "Press Start to see the answer with these settings."


class CompareColumn(QFrame):
    """Shows one column; call `sync` after the comparison has grown.

    Attributes:
        cursor_place: the cursor of this column.

    Signals:
        removed: the user removes the column. edited: a setting was changed.
    """

    removed = Signal()
    edited = Signal()

    def __init__(self, index: int) -> None:
        super().__init__()
        self.setObjectName("compareColumn")
        self.index = index
        self.theme: Theme = DARK
        self._scale = 1.0
        self.run: Column | None = None
        self._figures: list[tuple[str, str]] = []
        self._related: tuple[Relation | None, str] = (None, "")
        self.cursor_place = Cursor(self)
        letter = LETTERS[index]
        self.setAccessibleName(f"Column {letter}")
        self.letter = named(QLabel(letter, alignment=Qt.AlignmentFlag.AlignCenter), "columnLetter")
        self.title = named(ElidedLabel(), "sectionTitle")
        self.title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.remove = icon_button("close", f"Remove column {letter}", self.removed.emit)
        self.unfold = icon_button("options", f"Settings of column {letter}", self._show_controls)
        self.unfold.setCheckable(True)
        self.controls = ColumnControls(letter)
        self.controls.edited.connect(self.edited)
        self.figures = named(
            QLabel(wordWrap=True, alignment=Qt.AlignmentFlag.AlignTop),
            "columnFigures",
            f"Figures of column {letter}",
            tip="".join(f"<p>{DEFINITIONS[name]}</p>" for name in FIGURES if name in DEFINITIONS),
        )
        self.mark = QLabel()
        self.relation = named(
            QLabel(wordWrap=True, alignment=Qt.AlignmentFlag.AlignTop),
            "relationLine",
            f"How the text of column {letter} compares",
        )
        self.text = named(CompareText(self.cursor_place), label=f"Answer {letter}")
        self.chart = named(SampleChart(), label=f"Samples of column {letter}")
        self.text.pointing.walked.connect(self._announce)
        self.verdict = named(
            QLabel(POINT, wordWrap=True, alignment=Qt.AlignmentFlag.AlignTop), "verdictLine", f"Token verdict in column {letter}"
        )
        self.verdict.setIndent(0)  # the default indent would cut off the last line
        self.cursor_place.moved.connect(self._show_verdict)
        self.strip = RoundStrip(self.cursor_place)
        self.body = QStackedWidget()
        self.body.addWidget(self.text)
        self.body.addWidget(self.chart)
        self._arrange()

    def _arrange(self) -> None:
        top = QWidget()
        in_column(
            in_row(self.letter, (self.title, 1), self.unfold, self.remove, spacing=8),
            self.controls,
            self.figures,
            in_row((self.mark, 0, Qt.AlignmentFlag.AlignTop), (self.relation, 1), spacing=7),
            spacing=7,
            margins=(14, 10, 12, 8),
            parent=top,
        )
        in_column(top, (self.body, 1), self.verdict, self.strip, parent=self)

    # Content.

    def show_setup(self, setup: ColumnSetup, own_prompt: bool, names: tuple[str, ...], target: str) -> None:
        """Sets the controls to a setup; for `own_prompt`, `names` and `target` see `ColumnControls.show_setup`."""
        self.controls.show_setup(setup, own_prompt, names, target)

    @Slot()
    def _show_controls(self) -> None:
        """Folds the settings away beside an answer, since the title repeats most of them. A column's own prompt stays visible."""
        folds = self.run is not None and not self.controls.has_own_prompt
        self.unfold.setVisible(folds)
        self.controls.setVisible(not folds or self.unfold.isChecked())

    def show_title(self, short: str, full: str) -> None:
        """Shows the title; tooltip and screen reader get it in full."""
        self.title.setToolTip(plain_tip(full))
        self.title.setAccessibleName(full)
        self.title.setText(short)

    def _show_page(self, page: QWidget) -> None:
        """Shows the text or the samples; the hidden page takes no space."""
        for other in (self.text, self.chart):
            kind = QSizePolicy.Policy.Expanding if other is page else QSizePolicy.Policy.Ignored
            other.setSizePolicy(kind, kind)
        self.body.setCurrentWidget(page)

    def show_run(self, run: Column | None) -> None:
        """Shows the answer of another comparison; None clears the column."""
        self.run = run
        self.unfold.setChecked(False)
        self._show_controls()
        self.cursor_place.forget()
        self._show_page(self.text)
        self.strip.show()
        self.verdict.setVisible(run is not None)
        self._show_verdict(None)
        self.text.words = IDLE
        self.text.show_run(run)
        self.strip.show_run(run)
        self.chart.show_tally(None, 0)
        self._show_figures([])
        self._show_relation(None, "")

    def show_samples(self, tally: SampleTally, wanted: int) -> None:
        """Shows samples instead of one answer."""
        self.show_run(None)
        self._show_page(self.chart)
        self.strip.hide()
        self.verdict.hide()
        self.chart.words = "Waiting for the first sample."
        self.chart.show_tally(tally, wanted)

    def sync(self, comparison: Comparison, seconds: float, cells: int) -> None:
        """Updates everything; `seconds` and `cells` are the common range of the strips of all columns."""
        if self.run is None:
            return
        answer = self.run.answer
        self.text.words = waiting_words(answer)
        own, by_rule = comparison.divergence_of(self.index), bool(comparison.setup.rules)
        self.text.set_mark(comparison.divergence if own is None and not by_rule else own, self._kind(comparison))
        self.text.reveal_rejected(comparison.divergence if own is None else own)
        self.text.sync()
        self.strip.set_range(seconds, cells)
        self.strip.touch()
        if by_rule:  # the band above the columns shows the rest
            self._show_figures(figures_of(answer, comparison.speed_up(self.index), acceptance=()))
            return
        rules = comparison.setup.contrasted
        acceptance = expected_acceptance(self.run.setup.rule, paired_of(comparison)) if rules else None
        self._show_figures(figures_of(answer, comparison.speed_up(self.index), acceptance))
        relation = comparison.relation(self.index)
        others = comparison.letters_compared_with(self.index) if relation is None and answer.tally.rounds else ""
        verb = "are" if " " in others else "is"
        related = (relation, f"{others} {verb} compared with this text." if others else "")
        if related != self._related:
            self._show_relation(*related)

    def _kind(self, comparison: Comparison) -> Kind:
        """Returns the kind of the marked difference: the most serious of those that involve this column."""
        kinds = {
            relation.kind
            for index in range(len(comparison.columns))
            if (relation := comparison.relation(index)) is not None and self.index in (index, relation.other)
        }
        order: tuple[Kind, ...] = ("unexpected", "near-tie")
        return next((kind for kind in order if kind in kinds), "expected")

    def sync_samples(self, largest: int) -> None:
        """Updates the samples; `largest` is the height of the tallest bar in all columns."""
        self.chart.touch(largest)
        tally = self.chart.tally
        if tally is not None:
            words = f"{len(tally.samples):,} of {amount(self.chart.wanted, 'sample')}"
            self._show_figures([(f"{len(tally.samples):,}", f"of {amount(self.chart.wanted, 'sample')}")])
            self.figures.setAccessibleDescription(words)

    @Slot(object)
    def _show_verdict(self, place: Place | None) -> None:
        """Shows the verdict on this column's token at the position that the cursor highlights in any column."""
        found = self.text.verdict_at(place)
        if found is None:
            self.verdict.setText(POINT)
            self.verdict.setToolTip("")
            return
        shares = [f"{share.name} {share.text}" for share in found.shares]
        before = self._rejected_before(place)
        room = self._verdict_width - 20 - self._bold.horizontalAdvance(before)
        token = f"“{self._bold.elidedText(found.token, Qt.TextElideMode.ElideRight, max(40, room))}”"
        rest = self._fitting(f"{before} {token}".strip(), f"{', '.join([found.kind, *shares])}. {found.decision}")
        struck = f'<s style="color:{self.theme.rejected}">{escape(before)}</s> ' if before else ""
        bold = f'<span style="color:{self.theme.text}; font-weight:600">{escape(token)}</span>'
        self.verdict.setText(f"{struck}{bold} {escape(rest)}")
        self.verdict.setToolTip(f"<pre>{escape(found.text())}</pre>")
        self.verdict.setAccessibleDescription(found.brief)

    def _rejected_before(self, place: Place | None) -> str:
        """Returns the rejected proposals in whose place the token at a place came, shortened; empty if there are none."""
        spot = None if self.run is None or place is None else spot_of(place, self.run.answer)
        if self.run is None or spot is None or not spot.own:
            return ""
        position = self.run.position_of(spot)
        rejected = () if position is None else self.run.rejected_at(position).values()
        words = " ".join(f"“{visible(proposal.text, proposal.bytes, within_text=True)}”" for proposal in rejected)
        return self._bold.elidedText(words, Qt.TextElideMode.ElideRight, self._verdict_width // 2)

    @property
    def _bold(self) -> QFontMetrics:
        bold = QFont(self.verdict.font())
        bold.setWeight(QFont.Weight.DemiBold)
        return QFontMetrics(bold)

    @property
    def _verdict_width(self) -> int:
        return max(40, self.verdict.width() - 24)

    def _fitting(self, token: str, words: str) -> str:
        """Returns the words that fit after the token, cut at a word boundary; the tooltip has all of them."""
        room, bold = QRect(0, 0, self._verdict_width, 10_000), self._bold
        most = self.verdict.fontMetrics().lineSpacing() * self._lines

        def fits(words: str) -> bool:
            """Returns whether token and words fit, measured a little too wide, in bold."""
            return bold.boundingRect(room, Qt.TextFlag.TextWordWrap, f"{token} {words}").height() <= most

        if fits(words):
            return words
        parts = words.split(" ")
        kept = bisect_left(range(len(parts)), True, key=lambda count: not fits(f"{' '.join(parts[:count])} …")) - 1
        return f"{' '.join(parts[: max(0, kept)])} …"

    @Slot()
    def _announce(self) -> None:
        """Announces the token reached by arrow keys, and its verdict, to a screen reader."""
        found = self.text.verdict_at(self.cursor_place.place)
        if found is not None and QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.text, found.brief))

    def _show_figures(self, figures: list[tuple[str, str]]) -> None:
        """Shows figures, which are pairs of value and name; hides the line if there are none."""
        theme = self.theme
        parts = [
            f'<span style="color:{theme.text}; font-weight:600">{value}</span>&nbsp;'
            f'<span style="color:{theme.dim}">{words.replace(" ", "&nbsp;")}</span>'
            for value, words in figures
        ]
        self.figures.setText("&nbsp;&nbsp;&nbsp; ".join(parts))
        self.figures.setAccessibleDescription(", ".join(f"{value} {words}" for value, words in figures))
        self.figures.setVisible(bool(figures))
        self._figures = figures

    def _show_relation(self, relation: Relation | None, otherwise: str) -> None:
        words = otherwise if relation is None else relation_words(relation)
        self._related = (relation, otherwise)
        self.relation.setText(words)
        self.relation.setAccessibleDescription(words)
        self.relation.setVisible(bool(words))
        self.mark.setVisible(relation is not None and bool(words))
        kind = "" if relation is None else relation.kind
        if self.relation.property("kind") != kind:
            restyle(self.relation, "kind", kind)
        if relation is not None:
            drawing = {"same": "check", "unexpected": "warning"}.get(kind, "differs")
            colour = self.theme.accent if kind == "same" else mark_colour(relation.kind, self.theme).name()
            self.mark.setPixmap(themes.pixmap(drawing, colour, round(15 * self._scale), self.devicePixelRatioF()))

    def set_state(self, running: bool, may_remove: bool) -> None:
        """Locks the settings while an answer runs; `may_remove` is False if the minimum of columns is reached."""
        self.controls.set_running(running)
        self.remove.setVisible(may_remove)
        self.remove.setEnabled(not running)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    @property
    def _lines(self) -> int:
        """Number of lines for a verdict."""
        return VERDICT_LINES + (self.width() < NARROW * self._scale)

    def _make_room(self) -> None:
        """Adapts to the size: a narrow column has more lines for a verdict, a tall one a taller round strip."""
        self.verdict.setFixedHeight(QFontMetrics(self.verdict.font()).lineSpacing() * self._lines + 12)
        self._show_verdict(self.cursor_place.place)
        self.strip.set_room(self.height())

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the parts and rewrites figures, relation and verdict, whose mark-up contains colours."""
        self.theme, self._scale = theme, scale
        for button in (self.remove, self.unfold):
            tint(button, theme, scale)
        self.controls.set_look(theme, scale)
        self.letter.setFixedSize(round(22 * scale), round(22 * scale))
        for part in (self.text, self.chart, self.strip):
            part.set_look(theme, scale)
        self._make_room()
        self._show_figures(self._figures)
        self._show_relation(*self._related)
        self._show_verdict(self.cursor_place.place)


def waiting_words(answer: Answer) -> str:
    """Returns the placeholder while there is no text."""
    if answer.state == "failed":
        return answer.message
    if answer.state == "reading":
        done, total = answer.prefill
        return f"Reading the prompt, {done:,} of {amount(total, 'token')}." if total else "Reading the prompt."
    return "Waiting for its turn." if answer.running else "The answer is empty."


Figure = tuple[str, str]
"""Value and name of a figure."""


def figures_of(answer: Answer, speed_up: float | None, acceptance: Sequence[Figure] | None = None) -> list[Figure]:
    """Returns the figures of an answer; none before the first round.

    Args:
        acceptance: figures shown instead of alpha and tau where rules are contrasted. Measured on different texts, those of two
            columns differ by chance more than by the rule.
    """
    summary = answer.tally.summary
    if not summary.rounds:
        return []
    figures = [(number(answer.tokens_per_second, 1), "tokens/s")]
    if speed_up is not None:
        figures.append((f"{speed_up:.2f}×", "plain"))
    if acceptance is not None:
        figures += acceptance
    else:
        if summary.alpha is not None and summary.alpha_low is not None and summary.alpha_high is not None:
            figures.append((number(summary.alpha), f"alpha ± {(summary.alpha_high - summary.alpha_low) / 2:.2f}"))
        figures.append((number(summary.tau), "tau"))
    ending = f", {FINISH_WORDS[answer.finish]}" if answer.finish is not None else ", failed" if answer.state == "failed" else ""
    figures.append((f"{summary.emitted:,}", f"{noun(summary.emitted, 'token')}{ending}"))
    return figures


def expected_acceptance(rule: Rule, paired: PairedAcceptance | None) -> list[Figure]:
    """Returns the acceptance that a rule is expected to have at the positions of all columns; none while there are too few."""
    if rule not in EXPECTED_RULES:
        return [("no", "expected acceptance")]
    if paired is None or paired.has_too_few_blocks:
        return []
    return [(share(paired.expected[rule]), "expected acceptance")]


def relation_words(relation: Relation) -> str:
    """Describes where two texts diverge and why, or how far they agree."""
    if relation.first is None:
        return relation.words
    return f"Differs from {LETTERS[relation.other]} from token {relation.first + 1:,} on. {relation.words}"


class LinkedColumns:
    """Keeps the columns at the same position. Columns without an answer are left alone."""

    def __init__(self, columns: Sequence[CompareColumn]) -> None:
        self._columns = columns
        self._busy = False
        for column in columns:
            column.cursor_place.moved.connect(partial(self._follow, column, False))
            column.cursor_place.pinned.connect(partial(self._follow, column, True))
            column.text.scrolled.connect(partial(self._scroll, column))

    def scroll_into_view(self, position: int) -> None:
        """Scrolls a position into view in every column, and pins it."""
        self._busy = True
        for column in self._columns:
            if column.run is not None:
                column.text.scroll_into_view(position)
                if position < len(column.run.spots):
                    column.cursor_place.pin(place_of(0, column.run.spots[position]))
        self._busy = False

    def _follow(self, source: CompareColumn, pin: bool, place: Place | None) -> None:
        """Highlights the same answer position in every column."""
        if self._busy or source.run is None:
            return
        self._busy = True
        position = None if place is None else position_of(source, place)
        for column in self._columns:
            if column is source or column.run is None:
                continue
            spots = column.run.spots
            target = place_of(0, spots[position]) if position is not None and position < len(spots) else None
            column.cursor_place.pin(target) if pin else column.cursor_place.point(target)
        self._busy = False

    def _scroll(self, source: CompareColumn) -> None:
        """Scrolls the other columns so that the same answer position is at the same height."""
        if self._busy or (anchor := source.text.anchor) is None:
            return
        self._busy = True
        for column in self._columns:
            if column is not source and column.run is not None:
                column.text.scroll_to(*anchor)
        self._busy = False


def position_of(column: CompareColumn, place: Place) -> int | None:
    """Returns the answer position of a place in a column, for a whole round that of its first token; None if it has none."""
    run = column.run
    if run is None:
        return None
    if place.whole_round:
        return next((at for at, spot in enumerate(run.spots) if spot.round == place.round), None)
    spot = spot_of(place, run.answer)
    return None if spot is None else run.position_of(spot)
