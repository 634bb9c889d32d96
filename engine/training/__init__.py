"""Training of drafters: draft heads for any target (`draftlight train-drafter`; see README.md), and the older draft model that is
cut from the built-in target (`trimmed`, with text as `selfplay` reads it).

`job` is the entrance for the engine thread and needs no MLX. Nothing here runs while the app decodes: what a training writes is
loaded by `engine.models.head_model` and `engine.models.trimmed_draft`. A stage is a name in `engine.requests.train.STAGES` and
its part in `stages`.
"""
