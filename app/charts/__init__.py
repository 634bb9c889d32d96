"""The charts of one answer as a page of the side panel, drawn with pyqtgraph. `data` uses no Qt.

The series are in `engine.lens.tally`; `engine.exports.charts` draws charts to files without a display. A chart has a line in
`engine.lens.chart_kinds`, a function with its line in `engine.exports.charts`, and a subclass of `Chart` here with its line in
`page.SHOWN`.
"""
