"""The decode loop and its parts: one answer, from the prompt to its last round.

`decoding.decode` is the entry point, `loop.py` has the step of a round. A `TargetSession` is the target with its cache, an
`Answer` the text with its limits, `verification.verify` judges, and a `RoundTimer` measures. `policy/` decides which drafter
proposes and how many tokens; `recording/` turns a judged round into a record.
"""
