"""Two to four answers side by side, and many samples of each. `comparison` and `sample_tally` know no Qt.

Does not live here: turns, which the engine takes (`engine.serving.time_sharing`), and opening the page, which is
`app.window.pages`. A comparison to start from is an entry in `presets.PRESETS`; the menu and the page itself read it there.
"""
