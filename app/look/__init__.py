"""Shared by all views: colours, themes, style sheet, small widgets, the words of the window, and commands as data.

Imports no other room. Code for a single room stays there; words that the terminal or a report also use are in
`engine.lens.shared_wording`. A colour is a field of `colours.Theme` with a value for dark and light, an icon an SVG in
`assets/icons`, which `theme.icon` finds by name.
"""
