"""The painted parts of the verdict card: figures, and why a token was drawn: scores, coins, and the choices of a tree."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.look.marks import draw_rounded, draw_text_in, faded, smooth_painter
from app.look.theme import DARK, Theme, mono_font, sized
from app.verdict.verdict import Figure, Sibling, Side, probability
from engine.lens.draws import Draws, Score
from engine.lens.token_reasons import Coin

MIDDLE, LEFT, RIGHT = Qt.AlignmentFlag.AlignVCenter, Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight


@dataclass(frozen=True, slots=True)
class CardLook:
    """Theme and text scale of the card's parts."""

    theme: Theme
    scale: float

    def px(self, size: float) -> int:
        """Converts pixels at text scale 1 to whole pixels at this scale."""
        return round(size * self.scale)

    def colour_of(self, side: Side) -> QColor:
        """Returns the colour of the draft, the target, or (side "") neither of them."""
        colours = {"draft": self.theme.time_draft, "target": self.theme.time_verify, "": self.theme.dim}
        return QColor(colours[side])


class PaintedRows(QWidget):
    """Rows that are painted below each other; hidden if there are none."""

    def __init__(self) -> None:
        super().__init__()
        self._look = CardLook(DARK, 1.0)

    def _fix_height(self, height: float, words: str) -> None:
        """Sets the height of the contents, 0 for none, and the words for a screen reader."""
        self.setVisible(height > 0)
        self.setFixedHeight(round(height))
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._look.px(300), self.height())

    @property
    def _small(self) -> QFont:
        return sized(self.font(), self._look.px(10.5))

    def _draw_share(self, painter: QPainter, track: QRectF, share: float, colour: QColor, radius: float, least: int) -> None:
        """Draws a bar from 0 to 1 that is filled up to a share; if that is not 0, at least `least` pixels."""
        draw_rounded(painter, track, radius, QColor(self._look.theme.line))
        if share > 0:
            filled = QRectF(track.topLeft(), QSizeF(max(least, track.width() * min(1.0, share)), track.height()))
            draw_rounded(painter, filled, radius, colour)

    def _token(self, painter: QPainter, row: QRectF, words: str, colour: str) -> None:
        """Paints a token, elided to its column."""
        mono = mono_font(self._look.scale, 12)
        painter.setFont(mono)
        shown = QFontMetricsF(mono).elidedText(words, Qt.TextElideMode.ElideRight, row.width())
        draw_text_in(painter, colour, row, LEFT | MIDDLE, shown)


class FigureRows(PaintedRows):
    """Figures in three columns: name, value, and a bar or an explanation of the value."""

    def __init__(self) -> None:
        super().__init__()
        self._figures: tuple[Figure, ...] = ()

    def show_figures(self, figures: tuple[Figure, ...], look: CardLook) -> None:
        """Shows one line for each figure."""
        self._figures, self._look = figures, look
        self._fix_height(len(figures) * look.px(20), "")

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, look, theme = smooth_painter(self), self._look, self._look.theme
        mono, small = mono_font(look.scale, 12), sized(self.font(), look.px(11))
        noted = any(figure.note and figure.share is not None for figure in self._figures)
        for place, figure in enumerate(self._figures):
            row = QRectF(0, place * look.px(20), self.width(), look.px(20))
            painter.setFont(self.font())
            draw_text_in(painter, theme.dim, row, LEFT | MIDDLE, figure.name)
            painter.setFont(mono)
            draw_text_in(painter, theme.text, QRectF(0, row.top(), look.px(172), row.height()), RIGHT | MIDDLE, figure.text)
            row.setLeft(look.px(184))
            if figure.share is not None:
                length = look.px(72) if noted else row.width()  # one length for all bars
                track = QRectF(row.left(), row.center().y() - look.px(3), length, look.px(6))
                self._draw_share(painter, track, figure.share, look.colour_of(figure.side), look.px(3), look.px(2))
                row.setLeft(track.right() + look.px(8))
            painter.setFont(small)
            note = QFontMetricsF(small).elidedText(figure.note, Qt.TextElideMode.ElideRight, row.width())
            draw_text_in(painter, theme.faint, row, LEFT | MIDDLE, note)
        painter.end()


class ScoreChart(PaintedRows):
    """The scores of the best candidates: for each token a bar of the drafter over one of the target, log-probability solid and
    noise light."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: Draws | None = None

    def show_draws(self, draws: Draws | None, look: CardLook) -> None:
        """Shows the scores; None shows nothing."""
        self.draws, self._look = draws, look
        rows = 0 if draws is None else len(draws.contenders)
        self._fix_height(0 if not rows else rows * self._row + look.px(18), "Scores of the best candidates")

    @property
    def _row(self) -> int:
        two = self.draws is not None and self.draws.drafted is not None
        return self._look.px(36 if two else 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        draws, look = self.draws, self._look
        if draws is None:
            return
        painter, theme = smooth_painter(self), look.theme
        left, right = look.px(96), self.width() - look.px(92)
        scores = [score for entry in draws.contenders for score in (entry.draft, entry.target) if score is not None]
        edges = [
            edge for score in scores if score.log is not None and score.total is not None for edge in (score.log, score.total)
        ]
        low, high = (min(edges, default=-1.0) - 0.6, max(edges, default=1.0))
        self._legend(painter, left, draws)
        for place, entry in enumerate(draws.contenders):
            row = QRectF(0, look.px(18) + place * self._row, self.width(), self._row)
            if place and draws.drafted is not None:  # a line between tokens, whose bars come in pairs
                painter.fillRect(QRectF(0, row.top(), row.width(), 1), QColor(theme.line))
            chosen = entry.id in (draws.drawn, draws.drafted)
            self._token(
                painter, QRectF(0, row.top(), left - look.px(8), row.height()), entry.token, theme.text if chosen else theme.dim
            )
            sides: list[tuple[Side, Score | None, int | None]] = [("target", entry.target, draws.drawn)]
            if draws.drafted is not None:
                sides.insert(0, ("draft", entry.draft, draws.drafted))
            step = look.px(12)
            top = row.center().y() - step * len(sides) / 2
            for at, (side, score, drawn) in enumerate(sides):
                area = QRectF(left, top + at * step, right - left, step)
                self._bar(painter, area, side, score, (low, max(high, low + 1)), entry.id == drawn)
        painter.end()

    def _legend(self, painter: QPainter, left: float, draws: Draws) -> None:
        look, theme = self._look, self._look.theme
        small = self._small
        painter.setFont(small)
        x = float(left)
        sides: list[tuple[str, Side]] = [("drafter", "draft")] if draws.drafted is not None else []
        for words, side in (*sides, ("target", "target")):
            draw_rounded(painter, QRectF(x, look.px(5), look.px(9), look.px(7)), 1.5, look.colour_of(side))
            x += look.px(13)
            draw_text_in(painter, theme.dim, QRectF(x, 0, 200, look.px(16)), LEFT | MIDDLE, words)
            x += QFontMetricsF(small).horizontalAdvance(words) + look.px(10)
        draw_text_in(painter, theme.faint, QRectF(0, 0, self.width(), look.px(16)), RIGHT | MIDDLE, "score")

    def _bar(
        self, painter: QPainter, area: QRectF, side: Side, score: Score | None, span: tuple[float, float], drawn: bool
    ) -> None:
        """Paints one side's bar and, right of it, its score; a drawn one is named."""
        look, theme = self._look, self._look.theme
        if score is None or score.log is None or score.total is None:
            listed = score is not None and score.probability is not None
            no_chance = "q = 0, cannot be drawn" if side == "draft" else "p = 0, cannot be drawn"
            words = "copied, not drawn" if score is None else no_chance if listed else "not in its top five"
            painter.setFont(self._small)
            draw_text_in(painter, theme.faint, area.adjusted(0, -2, 80, 2), LEFT | MIDDLE, words)
            return

        def x(value: float) -> float:
            """Converts a score to a position."""
            return area.left() + (value - span[0]) / (span[1] - span[0]) * area.width()

        colour = look.colour_of(side)
        bar = area.adjusted(0, look.px(2), 0, -look.px(2))
        solid, end = min(x(score.log), x(score.total)), max(x(score.log), x(score.total))
        gains = score.noise >= 0
        painter.setPen(Qt.PenStyle.NoPen)
        painter.fillRect(QRectF(bar.left(), bar.top(), solid - bar.left(), bar.height()), colour)
        rest = QRectF(solid, bar.top(), end - solid, bar.height())
        if gains:
            painter.fillRect(rest, faded(colour, 105))
        else:  # the noise took this part away
            painter.setPen(QPen(faded(colour, 150), 1, Qt.PenStyle.DotLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(rest.adjusted(0.5, 0.5, -0.5, -0.5))
        value = f"{score.total:.2f}".replace("-", "−")
        painter.setFont(sized(mono_font(look.scale, 11), look.px(11)))
        column = QRectF(area.right() + look.px(4), area.top() - 2, look.px(44), area.height() + 4)
        draw_text_in(painter, theme.text if drawn else theme.faint, column, RIGHT | MIDDLE, value)
        if drawn:
            painter.setFont(self._small)
            beside = QRectF(column.right() + look.px(6), column.top(), look.px(40), column.height())
            draw_text_in(painter, theme.text, beside, LEFT | MIDDLE, "drafted" if side == "draft" else "drawn")


class CoinChart(PaintedRows):
    """Coins against the chance to be accepted: a track from 0 to 1 that is filled up to the chance, with a mark at the coin."""

    def __init__(self) -> None:
        super().__init__()
        self.coins: tuple[Coin, ...] = ()

    def show_coins(self, coins: tuple[Coin, ...], look: CardLook) -> None:
        """Shows one row for each coin."""
        self.coins, self._look = coins, look
        self._fix_height(len(coins) * look.px(38), "; ".join(map(coin_words, coins)))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, look, theme = smooth_painter(self), self._look, self._look.theme
        left, right = look.px(96), self.width() - look.px(10)
        for place, coin in enumerate(self.coins):
            row = QRectF(0, place * look.px(38), self.width(), look.px(38))
            self._token(painter, QRectF(0, row.top(), left - look.px(8), look.px(26)), coin.token, theme.text)
            track = QRectF(left, row.top() + look.px(8), right - left, look.px(9))
            self._draw_share(painter, track, coin.chance, QColor(theme.accepted), look.px(3), look.px(2))
            at = track.left() + track.width() * coin.coin
            painter.setPen(QPen(QColor(theme.text), look.px(2)))
            painter.drawLine(QPointF(at, track.top() - look.px(4)), QPointF(at, track.bottom() + look.px(4)))
            painter.setFont(self._small)
            relation = "below" if coin.coin < coin.chance else "not below"
            verdict = "accepted" if coin.accepted else "rejected"
            words = f"coin {coin.coin:.3f}, {relation} the chance {probability(coin.chance)}: {verdict}"
            below = QRectF(left, track.bottom() + look.px(3), right - left, look.px(15))
            draw_text_in(painter, theme.dim, below, LEFT | MIDDLE, words)
        painter.end()


def coin_words(coin: Coin) -> str:
    """Returns a coin and its chance in words."""
    return f"{coin.token}: coin {coin.coin:.3f}, chance {probability(coin.chance)}"


class SiblingRows(PaintedRows):
    """The choices for one position of a tree: rank, token, bars of q and p, and what became of them."""

    def __init__(self) -> None:
        super().__init__()
        self.siblings: tuple[Sibling, ...] = ()

    def show_siblings(self, siblings: tuple[Sibling, ...], look: CardLook) -> None:
        """Shows one row for each choice."""
        self.siblings, self._look = siblings, look
        self._fix_height(len(siblings) * look.px(32), " ".join(sibling.words for sibling in siblings))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, look, theme = smooth_painter(self), self._look, self._look.theme
        small, left = self._small, look.px(124)
        for place, sibling in enumerate(self.siblings):
            row = QRectF(0, place * look.px(32), self.width(), look.px(32))
            frame, right = row.adjusted(0.5, 1.5, -0.5, -1.5), sibling.fate.startswith("right")
            if sibling.here:
                draw_rounded(painter, frame, 5, QColor(theme.raised))
            if right:
                draw_rounded(painter, frame, 5, None, QPen(QColor(theme.accepted), 1, Qt.PenStyle.DashLine))
            first = QRectF(look.px(6), row.top() + look.px(1), row.width(), look.px(16))
            painter.setFont(small)
            draw_text_in(painter, theme.faint, first, LEFT | MIDDLE, f"{sibling.rank}." if sibling.rank else "–")
            ink = theme.accepted if sibling.fate == "accepted" else theme.text if sibling.here or right else theme.dim
            self._token(painter, QRectF(look.px(24), first.top(), left - look.px(32), first.height()), sibling.token, ink)
            painter.setFont(small)
            fate = QRectF(look.px(24), row.top() + look.px(16), row.width() - look.px(30), look.px(14))
            draw_text_in(painter, ink if right else theme.faint, fate, LEFT | MIDDLE, sibling.fate)
            width = (self.width() - left) / 2
            for side, words, value in sibling.shares:
                cell = QRectF(left + (width if side == "target" else 0), first.top(), width - look.px(8), first.height())
                draw_text_in(painter, theme.dim, cell, LEFT | MIDDLE, words)
                if value is not None:
                    cell.setLeft(cell.left() + look.px(56))
                    track = QRectF(cell.left(), cell.center().y() - look.px(2.5), cell.width(), look.px(5))
                    self._draw_share(painter, track, value, look.colour_of(side), 2, look.px(1))
        painter.end()
