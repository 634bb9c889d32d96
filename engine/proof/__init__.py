"""`draftlight prove`: statistical and exact checks of decoding on the models that are loaded.

`engine.proof.job` is the entrance for the engine thread and needs no MLX; `engine.proof.checks` and what it calls do. What the
checks are made of lives elsewhere: rules in `engine.acceptance`, noise in `engine.noise`, closed forms in `engine.theory`.
"""
