"""The verdict card: how one token came about, in a sentence and pictures, and behind "Details" everything recorded about it.

`verdict_host` shows, hides and places it.
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QPaintEvent, QPalette
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QPushButton, QToolButton, QWidget

from app.conversation.floating_buttons import FloatingButtons
from app.conversation.verdict_charts import LEFT, MIDDLE, RIGHT, CardLook, CoinChart, FigureRows, ScoreChart, SiblingRows
from app.look.marks import draw_rounded, draw_text_in, smooth_painter
from app.look.placing import visible_part
from app.look.theme import DARK, Theme, icon, mono_font, sized
from app.look.widgets import icon_button, in_column, in_row, named, scrolling, stretch, text_label, tint
from app.verdict.verdict import DICE_APART, DICE_SHARED, Alternative, Figure, Side, Verdict, probability


class AlternativeButton(QPushButton):
    """One likely token; a click branches the answer with it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("alternativeButton")
        self.setAutoDefault(True)  # Enter chooses as Space does
        self._look = CardLook(DARK, 1.0)
        self._side: Side = ""
        self.alternative: Alternative | None = None

    def show_alternative(self, alternative: Alternative, side: Side, look: CardLook) -> None:
        """Shows another token, in the colour of the draft or of the target."""
        self.alternative, self._side, self._look = alternative, side, look
        self.setMinimumHeight(look.px(22))
        self.updateGeometry()
        self.update()

    def allow(self, allowed: bool) -> None:
        """Sets whether a click branches. A token that is in the text already cannot be chosen."""
        assert self.alternative is not None
        self.setEnabled(allowed and "in the text" not in self.alternative.marks)
        words = f"{self.alternative.token}, {probability(self.alternative.probability)}{self.alternative.suffix}"
        self.setAccessibleName(f"{'Branch with' if self.isEnabled() else 'Alternative'} {words}")
        self.setCursor(Qt.CursorShape.PointingHandCursor if self.isEnabled() else Qt.CursorShape.ArrowCursor)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ignores auto-repeated keys, such as the held Enter that moved the focus here."""
        if not event.isAutoRepeat():
            super().keyPressEvent(event)

    def sizeHint(self) -> QSize:
        return QSize(self._look.px(150), self._look.px(22))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._look.px(60), self._look.px(22))

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.alternative is None:
            return
        painter = smooth_painter(self)
        look, theme = self._look, self._look.theme
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        if self.isEnabled() and (self.underMouse() or self.hasFocus()):
            draw_rounded(painter, area, 5, QColor(theme.raised), edge=QColor(theme.accent if self.hasFocus() else theme.faint))
        pad = look.px(3)
        bar = QRectF(pad, area.bottom() - look.px(4), (area.width() - 2 * pad) * self.alternative.probability, look.px(2))
        draw_rounded(painter, bar, 1, look.colour_of(self._side))
        mono, small = mono_font(look.scale, 12), sized(self.font(), look.px(10))
        metrics = QFontMetricsF(mono)
        inner = area.adjusted(pad, 0, -pad, -look.px(3))
        value = probability(self.alternative.probability)
        painter.setFont(mono)
        draw_text_in(painter, theme.dim, inner, RIGHT | MIDDLE, value)
        marks = ", ".join({"proposed": "drafted", "in the text": "in text"}[mark] for mark in self.alternative.marks)
        room = inner.width() - metrics.horizontalAdvance(value) - look.px(8)
        beside = QFontMetricsF(small).horizontalAdvance(marks) + look.px(6) if marks else 0.0
        token = metrics.elidedText(self.alternative.token, Qt.TextElideMode.ElideRight, room - beside)
        draw_text_in(painter, theme.text, inner, LEFT | MIDDLE, token)
        if marks:
            painter.setFont(small)
            inner.setLeft(inner.left() + metrics.horizontalAdvance(token) + look.px(6))
            draw_text_in(painter, theme.faint, inner, LEFT | MIDDLE, marks)
        painter.end()


WHAT_DETAILS_SHOW = "Shows or folds ids, bytes, alternatives and all recorded figures."
WIDTH = 400
GAP = 14
BEYOND_CORNERS = 4
"""Inset in pixels of a rectangle that does not reach the round corners of the card's border."""


class VerdictCard(QFrame):
    """A card that floats inside its parent.

    Attributes:
        verdict: the verdict shown; None before the first.

    Signals:
        chosen: (Alternative) a token to branch with. closed: the user closed the card.
        unfolded: (whether they are open) the user opened or folded the details.
    """

    chosen = Signal(object)
    closed = Signal()
    unfolded = Signal(bool)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("verdictCard")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Verdict")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.verdict: Verdict | None = None
        self._look = CardLook(DARK, 1.0)
        self._build()
        self.hide()

    def _build(self) -> None:
        self.token, self.state, self.where, self.data = (_label(name) for name in ("Token", "State", "Where", "Data"))
        self.close_button = named(icon_button("close", "Close (Esc)", self.closed), label="Close the verdict")
        self.close_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.share_rows, self.rows, self.expected_rows = FigureRows(), FigureRows(), FigureRows()
        self.score_chart, self.coin_chart, self.sibling_rows = ScoreChart(), CoinChart(), SiblingRows()
        self.headline, self.why = _label("Headline", True), _label("Why", True)
        self.decision, self.residual, self.notes, self.hint = (_label(n, True) for n in ("Decision", "Residual", "Notes", "Hint"))
        self.shares_title = _label("Section", text="Probability of this token here")
        self.why_title = _label("Section", text="Why this token")
        self.siblings_title = _label("Section", text="The drafter's choices for this position")
        beside = Qt.ToolButtonStyle.ToolButtonTextBesideIcon
        self.details = named(QToolButton(toolButtonStyle=beside), "verdictDetails", "Details", WHAT_DETAILS_SHOW)
        self.details.setCheckable(True)
        self.details.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.details.toggled.connect(self.unfolded)
        self.target_title = _label("Section", text="Target's most likely")
        self.draft_title = _label("Section", text="Drafter's most likely")
        self.expected_title = _label("Section", text="Expected acceptance here, before the draft was drawn")
        self.residual_title = _label("Section", text="Residual: max(p − q, 0), normalised")
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(10)
        self._grid.setVerticalSpacing(0)
        self._grid.setColumnStretch(0, 1)
        self._grid.setColumnStretch(1, 1)
        self._grid.addWidget(self.target_title, 0, 0)
        self._grid.addWidget(self.draft_title, 0, 1)
        self._body = named(QWidget(), "verdictBody")
        self._buttons = FloatingButtons[AlternativeButton, tuple[int, int, Alternative]](
            partial(AlternativeButton, self._body), lambda placed: self.chosen.emit(placed[2])
        )
        in_column(
            in_row(self.token, self.state, stretch(), self.close_button, spacing=8),
            self.headline,
            2,
            self.shares_title,
            self.share_rows,
            self.siblings_title,
            self.sibling_rows,
            self.why_title,
            self.score_chart,
            self.coin_chart,
            self.why,
            4,
            self._grid,
            in_row(self.details, stretch()),
            self.where,
            self.data,
            self.rows,
            self.decision,
            self.residual_title,
            self.residual,
            self.expected_title,
            self.expected_rows,
            self.notes,
            self.hint,
            spacing=4,
            margins=(GAP - BEYOND_CORNERS, 10 - BEYOND_CORNERS, GAP - BEYOND_CORNERS, 12 - BEYOND_CORNERS),
            parent=self._body,
        )
        self._scroll = scrolling(self._body)
        in_column(self._scroll, margins=(1 + BEYOND_CORNERS,) * 4, parent=self)
        QWidget.setTabOrder(self.details, self.close_button)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Sets fonts and colours, and shows the verdict again if there is one."""
        self._look = CardLook(theme, scale)
        ground = QPalette()  # an opaque colour, so that text growing below the card does not repaint its parts
        ground.setColor(QPalette.ColorRole.Window, theme.panel)
        self._body.setPalette(ground)
        mono = mono_font(scale, 14)
        mono.setBold(True)
        self.token.setFont(mono)
        self.details.setIconSize(QSize(round(12 * scale), round(12 * scale)))
        self.data.setFont(mono_font(scale, 11))
        self.residual.setFont(mono_font(scale, 12))
        tint(self.close_button, theme, scale)
        if self.verdict is not None:
            self.show_verdict(self.verdict)

    def show_verdict(self, verdict: Verdict, pinned: bool = False, hint: str = "", can_branch: bool = False) -> None:
        """Fills the card.

        Args:
            pinned: it can be clicked; otherwise it is transparent for the mouse.
            hint: a last line on the possible actions.
            can_branch: whether alternatives can be chosen.
        """
        look = self._look
        self.verdict = verdict
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents, not pinned)
        self.close_button.setVisible(pinned)
        room = look.px(WIDTH - 2 * GAP - 150)
        shown = QFontMetricsF(self.token.font()).elidedText(verdict.token, Qt.TextElideMode.ElideMiddle, room)
        self.token.setText(shown)
        self.state.setText(verdict.kind)
        theme = look.theme
        colours = {"rejected": theme.rejected, "correction": theme.correction, "bonus": theme.bonus, "accepted": theme.accepted}
        self.state.setStyleSheet(f"color: {colours.get(verdict.kind, theme.dim)}; font-weight: 600;")
        self.where.setText(verdict.location.capitalize())
        data = f"id {verdict.id}   bytes {verdict.data or '–'}"
        wide = look.px(WIDTH - 2 * GAP) - 4
        self.data.setText(QFontMetricsF(self.data.font()).elidedText(data, Qt.TextElideMode.ElideRight, wide))
        self.headline.setText(verdict.headline)
        self.share_rows.show_figures(verdict.shares, look)
        self.sibling_rows.show_siblings(verdict.siblings, look)
        self.score_chart.show_draws(verdict.draws, look)
        self.coin_chart.show_coins(verdict.coins, look)
        self.why.setText(why_words(verdict))
        self.rows.show_figures(verdict.figures, look)
        self.decision.setText(verdict.decision)
        self._show_alternatives(verdict, can_branch)
        entries = (f"“{left.token}” {left.text}".replace(" ", "\N{NO-BREAK SPACE}") for left in verdict.residual)
        self.residual.setText("   ".join(entries))  # lines break between tokens only
        expected = tuple(Figure(rule, probability(value), share=value) for rule, value in verdict.expected)
        self.expected_rows.show_figures(expected, look)
        self.notes.setText("\n".join(verdict.unknown))
        self.hint.setText(hint)
        opened = self.details.isChecked()
        self.details.setVisible(pinned)
        self.details.setText("Details")
        self.details.setIcon(icon("chevron" if opened else "chevron-right", look.theme.dim))
        explains = verdict.draws is not None or bool(verdict.coins)
        optional: tuple[tuple[QWidget, bool], ...] = (
            (self.shares_title, bool(verdict.shares)),
            (self.siblings_title, bool(verdict.siblings)),
            (self.why_title, explains),
            (self.why, explains or bool(verdict.no_draws)),
            (self.where, opened),
            (self.data, opened),
            (self.rows, opened and bool(verdict.figures)),
            (self.decision, opened),
            (self.residual_title, opened and bool(verdict.residual)),
            (self.residual, opened and bool(verdict.residual)),
            (self.expected_title, opened and bool(expected)),
            (self.expected_rows, opened and bool(expected)),
            (self.notes, bool(verdict.unknown) and (opened or not verdict.shares)),
            (self.hint, bool(hint)),
        )
        for part, shows in optional:
            part.setVisible(shows)
        self.setAccessibleDescription(verdict.text())
        self._fit()
        if not pinned:
            self._shorten()

    def _show_alternatives(self, verdict: Verdict, can_branch: bool) -> None:
        shows = can_branch or self.details.isChecked()
        placed: list[tuple[int, int, Alternative]] = []
        for column, (title, entries) in enumerate(((self.target_title, verdict.target), (self.draft_title, verdict.draft))):
            title.setVisible(shows and bool(entries))
            placed += [(row, column, entry) for row, entry in enumerate(entries if shows else (), start=1)]
        for button, (row, column, entry) in self._buttons.show_for(placed):
            self._grid.addWidget(button, row, column)
            button.show_alternative(entry, "draft" if column else "target", self._look)
            button.allow(can_branch)

    def open_details(self, opened: bool) -> None:
        """Opens or folds the details of the verdicts shown from now on."""
        self.details.setChecked(opened)

    @property
    def alternatives(self) -> list[AlternativeButton]:
        """The buttons of the shown alternatives, those of the target first."""
        return [button for button in self._buttons.widgets if not button.isHidden()]

    def _fit(self) -> None:
        """Resizes the card to its fixed width and the height of its contents, at most that of the visible part of the window."""
        room = self._room
        width = min(self._look.px(WIDTH), room.width())
        height = self._height_for(width)
        policies, scrolls = Qt.ScrollBarPolicy, height > room.height()
        self._scroll.setVerticalScrollBarPolicy(policies.ScrollBarAsNeeded if scrolls else policies.ScrollBarAlwaysOff)
        self.resize(width, min(height, room.height()))

    @property
    def _room(self) -> QSize:
        parent = self.parentWidget()
        return QSize(10**6, 10**6) if parent is None else visible_part(parent).size() - QSize(16, 16)

    def _height_for(self, width: int) -> int:
        """Returns the height of the card at this width, in pixels, including the frame."""
        layout, whole = self._body.layout(), self.layout()
        assert layout is not None and whole is not None
        self.ensurePolished()
        frame, margins = self.contentsMargins(), whole.contentsMargins()
        layout.invalidate()
        layout.activate()
        across = frame.left() + frame.right() + margins.left() + margins.right()
        down = frame.top() + frame.bottom() + margins.top() + margins.bottom()
        return layout.totalHeightForWidth(width - across) + down

    def _shorten(self) -> None:
        """Hides the least important parts until the rest fits, because a card that is not pinned cannot be scrolled."""
        least_needed: tuple[tuple[QWidget, ...], ...] = (
            (self.expected_title, self.expected_rows),
            (self.residual_title, self.residual),
            (self.target_title, self.draft_title, *self.alternatives),
            (self.where, self.data, self.rows, self.decision),
            (self.why_title, self.score_chart, self.coin_chart, self.why),
            (self.siblings_title, self.sibling_rows),
            (self.notes,),
        )
        for parts in least_needed:
            if self._height_for(self.width()) <= self._room.height():
                break
            for part in parts:
                part.hide()
        self._fit()

    def focus_first(self) -> None:
        """Focuses the first alternative that can be chosen, or the card itself."""
        first = next((button for button in self.alternatives if button.isEnabled()), None)
        (first or self).setFocus(Qt.FocusReason.OtherFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Scrolls a card taller than its window with the arrow and page keys, also if it has no alternatives. Enter opens and
        folds the details."""
        bar, key = self._scroll.verticalScrollBar(), Qt.Key(event.key())
        by = {Qt.Key.Key_Up: -bar.singleStep(), Qt.Key.Key_Down: bar.singleStep()}
        by |= {Qt.Key.Key_PageUp: -bar.pageStep(), Qt.Key.Key_PageDown: bar.pageStep()}
        if key in by:
            bar.setValue(bar.value() + by[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.isAutoRepeat():
            self.details.toggle()
        else:
            super().keyPressEvent(event)


def why_words(verdict: Verdict) -> str:
    """Returns how to read the picture of the draw or of the coins, or why there is none."""
    draws = verdict.draws
    if draws is not None:
        how = "A score is log-probability (solid) plus noise (light; dotted if it takes away). The highest score is drawn."
        if draws.tied:
            how += " The two best scores are equal up to rounding."
        if draws.drafted is None:
            return how
        return f"{how} {DICE_SHARED if draws.shared else DICE_APART}"
    if verdict.coins:
        many = len(verdict.coins) > 1
        chance = "chance: p/q of what earlier choices left, at most 1" if many else "chance min(1, p/q)"
        replaced = not any(coin.accepted for coin in verdict.coins)
        left = " What replaces it is drawn from the residual: the part of p that lies above q." if replaced else ""
        return f"The filled part is the {chance}. A coin that falls into it accepts.{left}"
    return verdict.no_draws


def _label(name: str, wraps: bool = False, text: str = "") -> QLabel:
    label = text_label(f"verdict{name}", text, wraps)
    label.setIndent(0)
    return label
