"""The rounds of an answer as lanes on a time axis, a page of the side panel.

`geometry` and `field` say what stands where without Qt, `painter` draws it, `view` scrolls and zooms, `lanes` points, and `page`
puts the controls around. The times are measured in `engine.decoding`; nothing here computes any. What is to be new in a lane gets
its place in `geometry` and its looks in `painter`.
"""
