"""The side panel: the figures of an answer above, one page at a time below, and what explains either.

Does not live here: the pages, which are `app.lanes`, `app.charts` and `app.table`. A figure is an entry in `figure_tiles.NAMES`
with its value in `Figures`, and its formula in `definitions.FORMULAS`; a page is one more in `SidePanel.pages`, with its name in
`app.session.settings.PANEL_PAGES`.
"""
