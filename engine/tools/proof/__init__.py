"""`draftlight prove`: statistical and exact checks of decoding on the models that are loaded.

`job` is the entry point for the engine thread and needs no MLX; `checks` and the modules it calls do. The checks use code from
elsewhere: rules from `engine.acceptance`, noise from `engine.noise`, closed forms from `engine.rounds.theory`; the statistical
tests are in `goodness_of_fit`. A check is a function that returns or yields `Finding`s, called in `checks.prove`. A fault that
it must detect is a name in `engine.values.requests.prove.PLANTS`, described in `DESCRIPTIONS` there.
"""
