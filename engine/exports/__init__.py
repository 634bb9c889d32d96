"""Exports of traces for other programs and for people: tables, documents, drawings and a report. No MLX, no Qt, no network.

`engine.exports.export` is the entry point: it reads traces, writes a format and reads one back. PNG and the share card are in
`app.export`. Each format is a module here and an entry in `formats.FORMATS`; each column of the tables is an entry in `tables`.
"""
