"""Writing what is shown: kinds of export, the dialog that asks where, pictures, and the share card.

Only `dialog` and `raster` need Qt, because the command line exports through `kinds` as well. Reports, tables and the drawings of
charts do not live here but in `engine.exports`. A kind of export is an entry in `kinds.KINDS` and what writes it, for all but the
share card a format of `engine.export`.
"""
