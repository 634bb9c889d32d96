"""Turns a judged round into a `Round`: its record, and the analysis that completes it.

The analysis is done by numpy on every machine; only the draws of other rules are made on the device where there is one
(`other_draws`). Not here: judging (`engine.acceptance`), and reading, counting and wording of recorded rounds (`engine.rounds`,
`engine.lens`). A new fact about a round is a field in `engine.values.answers`, filled in `record` and read in
`engine.rounds.codec`.
"""
