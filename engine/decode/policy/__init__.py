"""Draft policies: which drafter proposes in a round and how many tokens, based on the previous rounds.

`fixed` uses the number that the user chose, `adaptive` maximises tokens per millisecond, `estimates` estimates a drafter's
acceptance rate and cost, and `costs` stores the measured costs of passes on this machine.
"""
