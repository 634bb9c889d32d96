"""Turns a judged round into a `Round`: its record, and the analysis that completes it, on the device or in numpy.

Not here: judging (`engine.acceptance`), and reading, counting and describing recorded rounds (`engine.rounds`, `engine.lens`). A
new item of a round's record is a field in `engine.values.answers`, filled in `record`, and read in `engine.rounds.codec`.
"""
