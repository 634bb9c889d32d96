"""The target's part in decoding: its distributions, its prompt cache, the outputs of its layers.

Not here: loading a target (`engine.models`), and caches between turns (`engine.serving.model_slots`). `prompt_cache` refuses
kinds of cache that cannot be rolled back, with the reason. A new filter of probabilities is a step in `distribution.Shaper`, for
target and drafter alike.
"""
