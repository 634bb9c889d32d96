"""`draftlight bench`: drafters, rules and settings measured on prompts, each beside plain runs of the same prompt.

`job` is the entrance for the engine thread and needs no MLX: it decodes through `engine.serving.backend`. Only `peers`, which
runs mlx-lm's own loops, does. Request and rows are in `engine.values.requests.bench`, tables for the terminal in `app.cli`. A
figure is a field of `BenchRow` that `measure.row_of` fills.
"""
