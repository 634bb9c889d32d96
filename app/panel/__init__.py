"""The side panel: the figures of an answer above, one page at a time below, and what explains either.

Does not live here: the pages, which are `app.lanes`, `app.charts`, `app.table` and `app.rules`. A figure is an entry in
`definitions.NAMES` with its value in `figures_of` and its formula in `FORMULAS` there; a page is one more in `SidePanel.pages`,
with its name in `app.session.settings.PANEL_PAGES`.
"""
