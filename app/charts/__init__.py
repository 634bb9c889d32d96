"""The charts of one answer as a page of the side panel, drawn by pyqtgraph. `data` and `notes` know no Qt.

Does not live here: the series (`engine.lens.tally`), and charts as files, which `engine.exports.charts` draws without a
display. A chart is an entry in `engine.lens.chart_kinds`, a subclass of `Chart` in `by_round`, `by_position` or `by_time`, its
place in the list of `page.ChartsPage`, a function in `engine.exports.charts.DRAW`, and its formula in `app.panel.definitions`.
"""
