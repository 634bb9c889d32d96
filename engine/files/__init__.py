"""Files and folders: the built-in model, checksums, the headers of model files, memory, paths, and the log. No MLX.

Does not live here: what a model file means, which is `engine.models`. Whoever writes a whole file does so through `whole_file`; a
trace, which grows line by line, is `engine.trace`.
"""
