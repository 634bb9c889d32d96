"""What decoding asks of a target: its distributions, its prompt cache, the outputs of its layers.

Does not live here: loading one (`engine.models`), and caches between turns (`engine.serving.model_slots`). A kind of
cache that cannot be rolled back is refused in `prompt_cache`, with the reason; a filter of probabilities is a step in
`distribution.Shaper`, for target and drafter alike.
"""
