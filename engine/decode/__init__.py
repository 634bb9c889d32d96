"""The decode loop and what it works with: one answer, from the prompt to its last round.

`decoding.decode` is the entrance, `loop.py` has the step of a round. The target with its cache is a `TargetSession`, the text
with its limits an `Answer`; a `Verifier` judges, with one implementation for a device and one for numpy; a `RoundTimer` measures.
Which drafter proposes, and how many tokens, is in `policy/`; what is recorded of a judged round in `recording/`.
"""
