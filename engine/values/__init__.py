"""The values that cross boundaries, and what everybody may import: errors, ranges, wording, the table of drafters. No MLX.

`answers` has options, rounds and requests for answers, `requests/` what else is asked of the engine, `events` what comes back.
`engine.types` has all of them under one name.
"""
