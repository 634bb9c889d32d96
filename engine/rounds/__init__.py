"""What is known of recorded rounds, without MLX: traces and their JSON, figures, closed forms, near-ties.

Does not live here: how a round is recorded (`engine.decode.recording`), and how it is shown (`engine.lens`).
"""
