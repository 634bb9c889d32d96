"""A page of the side panel: a table with every figure of every round. `model` sorts and copies, `page` handles the cursor.

The tables of an export are in `engine.exports.tables`. A column is an entry in `model.COLUMNS`.
"""
