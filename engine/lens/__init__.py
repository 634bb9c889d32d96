"""Presentation of rounds, the same in window, terminal and exports: reading order, reasons, wording, series and chart
definitions.

No MLX, no Qt. Not here: drawing, and the figures of a whole answer (`engine.rounds.metrics`). A new chart begins with an entry in
`chart_kinds.CHARTS`, a new series with one in `tally.Tally`.
"""
