"""Comparisons: two to four answers side by side, and many samples of each. `comparison` and `sample_tally` use no Qt.

The engine schedules the alternating rounds (`engine.serving.time_sharing`); `app.window.pages` opens the page. Each ready-made
comparison is an entry in `presets.PRESETS`, which the menu and the page read.
"""
