"""The engine in a process of its own: a crash in native code then ends an answer, not the window.

`client.ProcessEngine` takes the same commands as `engine.runtime.worker.Engine` (`engine.values.requests.commands`). `child`
runs in the process, around an `Engine` or another one named in `launch.Launch`. Commands and events are sent over
`multiprocessing.connection`, encoded by `wire`. `client.PendingRequests` contains what is still unanswered if the process dies.

Nothing here decodes or loads a model: importing `client` and `launch` does not import MLX.
"""
