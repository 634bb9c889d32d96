"""How requests are served on the engine thread: answers, turns, samples, what is loaded, and caches between turns.

No MLX by itself: `Backend` stands for all that computes.
"""
