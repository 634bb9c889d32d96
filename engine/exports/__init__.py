"""What is made from traces for other programs and people: tables, documents, drawings, a report. No MLX, no Qt, no network.

`engine.exports.export` is the door: it reads traces, writes a format and reads one back. PNG and the share card do not live here
but in `app.export`. A format is a module here and a line in `formats.FORMATS`; a column of all tables is a line in `tables`.
"""
