"""What is made from traces for other programs and people: tables, documents, drawings, a report. No MLX, no Qt, no network.

`engine.export` is the door: it reads traces, writes a kind of export and reads one back.
"""
