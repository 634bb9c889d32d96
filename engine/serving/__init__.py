"""How requests are served on the engine thread: answers, turns, samples, what is loaded, and caches between turns.

No MLX by itself: `backend.Backend` stands for all that computes, and `engine.runtime.mlx_backend` is the real one. The thread and
its queue are `engine.runtime.worker`. A long task is a subclass of `jobs.LongTask`; what it needs of MLX is a method of
`Backend`.
"""
