"""Files and folders: the built-in model, checksums, headers, paths, the log, and writing whole files. No MLX."""
