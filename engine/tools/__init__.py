"""Long tasks of the engine: `draftlight bench`, `prove` and `train-drafter`, a folder each.

`job` in each folder is the entry point for the engine thread. Their requests are defined in `engine.values.requests`.
"""
