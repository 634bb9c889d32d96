"""The lens through which rounds are seen, the same in window, terminal and exports: reading order, reasons, wording, series,
and what charts there are.

No MLX, no Qt. Does not live here: how any of them draws it, and the figures of a whole answer (`engine.rounds.metrics`). A chart
begins with an entry in `chart_kinds.CHARTS`, a series with one in `tally.Tally`.
"""
