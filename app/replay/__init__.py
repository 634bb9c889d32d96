"""A trace played as it was made: `player` knows no Qt, `bar` has the controls.

Does not live here: reading traces (`engine.trace`), and opening one in the window (`app.window.replay_controller`). The player
feeds `Session.apply` with events, so whatever shows a living answer shows a replay without knowing of it.
"""
