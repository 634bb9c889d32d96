"""What is asked of the engine besides an answer, and what comes of it, as frozen values. No MLX."""
