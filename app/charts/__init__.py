"""The charts of one answer as a page of the side panel, drawn by pyqtgraph. `data` knows no Qt.

Does not live here: the series (`engine.lens.tally`), and charts as files, which `engine.exports.charts` draws without a display.
A chart is a line in `engine.lens.chart_kinds`, a function and its line in `engine.exports.charts`, and a subclass of `Chart` here
with its line in `page.SHOWN`.
"""
