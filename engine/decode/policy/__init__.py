"""Draft policies: who proposes in a round and how many tokens, by what the rounds before have shown.

`fixed` keeps to the number that the user chose, `adaptive` maximises tokens per millisecond with a number of its own, `estimates`
holds what it knows of a drafter, and `costs` what passes take on this machine.
"""
