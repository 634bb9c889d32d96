"""`draftlight bench`: measures drafters, rules and settings on prompts, each next to plain runs of the same prompt.

`job` is the entry point for the engine thread and needs no MLX: it decodes through `engine.serving.backend`. Only `peers`,
which runs mlx-lm's own loops, imports MLX. Requests and rows are defined in `engine.values.requests.bench`, tables for the
terminal in `app.cli`. A new figure is a field of `BenchRow` that `measure.row_of` fills.
"""
