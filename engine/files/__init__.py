"""Files and folders: the built-in model, checksums, the headers of model files and what they say of a model, the models on this
machine, memory, paths, and the log. No MLX.

Does not live here: models and their weights, which are `engine.models`. Whoever writes a whole file does so through `whole_file`;
a trace, which grows line by line, is `engine.rounds.trace`.
"""
