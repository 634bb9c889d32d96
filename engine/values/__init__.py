"""Values that cross module, thread and process boundaries: errors, ranges, wording, drafter kinds, requests, events. No MLX.

`answers` has options, rounds and requests for answers, `requests/` all other requests to the engine, `events` what it reports.
`engine.types` exports all of them.
"""
