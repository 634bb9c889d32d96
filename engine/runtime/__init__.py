"""What serves requests: the engine's thread, the same in a process of its own, and everything that the thread asks of MLX.

`interface.EngineLike` is what both can be asked for; `worker.Engine` is the thread, `process.client.ProcessEngine` the process.
Not here: how an answer is served (`engine.serving`), and a target on several machines (`engine.cluster`).
"""
