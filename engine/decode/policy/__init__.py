"""Draft policies: which drafter proposes in a round, and how many tokens.

`fixed` uses the gamma that the user chose. `adaptive` maximises expected tokens per millisecond, from past rounds and from stored
figures of earlier answers. `estimates` has the acceptance rate and the cost of a drafter, `costs` the stored figures of this
machine.
"""
