"""Recorded rounds, without MLX: traces and their JSON, metrics, closed-form probabilities, near-ties.

Not here: recording a round (`engine.decode.recording`), and showing it (`engine.lens`).
"""
