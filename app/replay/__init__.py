"""Replays a trace: `player` uses no Qt, `bar` has the controls.

Traces are read by `engine.rounds.trace` and opened in the window by `app.window.replay_controller`. The replay feeds
`Session.apply` with events, so every view of a live answer can show a replay without knowing it.
"""
