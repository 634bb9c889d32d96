"""The charts. A chart is an entry in `data`, a class in `by_round`, `by_position` or `by_time`, and a drawing in
`engine.exports.charts`.
"""
