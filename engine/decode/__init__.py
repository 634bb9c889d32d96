"""The decode loop and what it works with: one answer, from the prompt to its last round.

`loop.py` has the step of a round. The target with its cache is a `TargetSession`, the text with its limits an `Answer`; a
`Verifier` judges, with one implementation for a device and one for numpy; a `RoundTimer` measures.
"""
