"""`draftlight bench`: drafters, rules and settings measured on prompts, each beside plain runs of the same prompt.

`engine.bench.job` is the entrance for the engine thread and needs no MLX: it decodes through `engine.serving.backend`. Only
`engine.bench.peers`, which runs mlx-lm's own loops, does. Tables and files are made in `app/`.
"""
