"""The charts of one answer as a page of the side panel, drawn with pyqtgraph. `data` uses no Qt.

What each chart shows is described in `engine.lens.charts`; `chart` and `items` draw any such description, as
`engine.exports.svg_charts` does without a display.
"""
