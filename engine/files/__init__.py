"""Files and folders: the built-in model, checksums, headers of model files, the models on this machine, memory, paths and log. No
MLX.

Not here: models and their weights (`engine.models`), and traces, which grow line by line (`engine.rounds.trace`). Whole files are
written with `whole_file`.
"""
