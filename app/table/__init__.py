"""Every figure of every round as a table, a page of the side panel: `model` sorts and copies, `page` shows and points.

Does not live here: the tables of an export, which are `engine.exports.tables`. A column is an entry in `model.COLUMNS`.
"""
