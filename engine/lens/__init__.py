"""Presentation of rounds, the same in window, terminal and exports: reading order, reasons, wording, series and chart
descriptions.

No MLX, no Qt. Not here: drawing, and the figures of a whole answer (`engine.rounds.metrics`). A chart
is an entry in `chart_kinds.CHARTS` and a function in `charts`, which describes it as a `chart_spec.ChartSpec`; a series begins in
`tally.Tally`.
"""
