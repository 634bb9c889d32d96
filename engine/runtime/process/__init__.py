"""The engine in a process of its own: a crash in native code loses an answer there, not the window.

`client.ProcessEngine` is sent the same commands as `engine.runtime.worker.Engine` (`engine.values.requests.commands`). `child` is
what runs in the process, around an `Engine` or another one that `launch.Launch` names. Commands go out and events come in over
`multiprocessing.connection`, as `wire` has them; `client.Owed` knows what is still to be answered if the process dies.

Here is no decoding and no model: those who import `client` and `launch` import no MLX.
"""
