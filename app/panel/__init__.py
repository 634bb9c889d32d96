"""The side panel: the figures of an answer at the top, one page at a time below, and their definitions.

The pages are `app.lanes`, `app.charts`, `app.table` and `app.rules`. A figure is an entry in `definitions.NAMES`, with its value
in `figures_of` and its formula in `FORMULAS`. A page is an entry in `SidePanel.pages`, with its name in
`app.session.settings.PANEL_PAGES`.
"""
