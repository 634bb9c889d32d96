"""Exports what is shown: the kinds of export, the save dialog, pictures, and the share card.

Only `dialog` and `raster` need Qt, because the command line exports through `kinds` as well. Reports, tables and drawings of
charts are in `engine.exports`, as are new formats; one that needs fonts or pixels is an entry in `kinds.PICTURES`.
"""
