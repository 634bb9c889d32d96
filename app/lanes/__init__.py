"""The rounds as lanes on a time axis. `geometry` and `field` lay out without Qt, `painter` paints, `lanes` scrolls and points."""
