"""How a judged round becomes a `Round`: its record, and the analysis that completes it, on the device or in numpy.

Does not live here: judging (`engine.acceptance`), and what is read, counted and said of recorded rounds (`engine.rounds`,
`engine.lens`). What is to be recorded of a round is a field in `engine.values.answers`, filled in `record`, with its reading in
`engine.rounds.codec`.
"""
