"""Training of drafters for any target (`draftlight train-drafter`; see README.md).

`job` is the entry point for the engine thread and needs no MLX. Nothing here runs while the app decodes:
`engine.models.head_model` and `engine.models.block_model` load the trained files. A stage is a name in
`engine.values.requests.train.STAGES` and its implementation in `stages`.
"""
