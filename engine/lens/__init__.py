"""What window, terminal and report all tell of rounds: reading order, reasons, words, charts and series. No MLX."""
