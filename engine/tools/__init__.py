"""Long tasks beside answers: `draftlight bench`, `prove` and `train-drafter`, a folder each.

`job` in each is the entrance for the engine's thread. What can be asked of them is in `engine.values.requests`.
"""
