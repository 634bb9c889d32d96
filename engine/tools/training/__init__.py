"""Training of drafters for any target (`draftlight train-drafter`; see README.md).

`job` is the entrance for the engine thread and needs no MLX. Nothing here runs while the app decodes: what a training writes is
loaded by `engine.models.head_model` and `engine.models.block_model`. A stage is a name in `engine.values.requests.train.STAGES`
and its part in `stages`.
"""
