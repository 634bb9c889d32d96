"""Writing what is shown: kinds of export, the dialog that asks where, pictures, and the share card.

Only `dialog` and `raster` need Qt, because the command line exports through `kinds` as well. Reports, tables and the drawings of
charts do not live here but in `engine.exports`, where a new format goes too; one that needs fonts or pixels is a line in
`kinds.PICTURES`.
"""
