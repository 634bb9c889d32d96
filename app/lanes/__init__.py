"""The rounds of an answer as lanes on a time axis, a page of the side panel.

`geometry` and `field` compute the layout without Qt, `painter` draws it, `lanes` scrolls, zooms and points, and `page` adds the
controls. The times are measured in `engine.decode.decoding`; nothing here computes any. A new element of a lane gets its position
in `geometry` and its drawing in `painter`.
"""
