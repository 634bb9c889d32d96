"""`draftlight prove`: statistical and exact checks of decoding on the models that are loaded.

`job` is the entrance for the engine thread and needs no MLX; `checks` and what it calls do. What the checks are made of lives
elsewhere: rules in `engine.acceptance`, noise in `engine.noise`, closed forms in `engine.rounds.theory`; what counts prove is in
`goodness_of_fit`. A check is a function that returns or yields `Finding`s, called in `checks.prove`; a fault it must notice is a
name in `engine.values.requests.prove.PLANTS`, described in `DESCRIPTIONS` there.
"""
