"""The engine that serves requests: on a thread or in a process of its own, and all its calls to MLX.

`interface.EngineLike` is the interface of both; `worker.Engine` runs on a thread, `process.client.ProcessEngine` in a process.
Not here: how an answer is served (`engine.serving`), and a target on several machines (`engine.cluster`).
"""
