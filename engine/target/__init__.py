"""What decoding asks of a target: its distributions, its prompt cache, its layers."""
