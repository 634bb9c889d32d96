"""Serves requests on the engine thread: answers, turns, samples, loaded models, and caches between turns.

Nothing here calls MLX directly: `backend.Backend` is the interface of everything that computes, implemented by
`engine.runtime.mlx_backend`. The thread and its queue are in `engine.runtime.worker`. A long task is a subclass of
`jobs.LongTask`; its calls to MLX are methods of `Backend`.
"""
