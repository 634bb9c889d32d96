"""A target split over several processes, usually one per machine, by `mx.distributed` and mlx-lm's own `shard` or pipeline.

Rank 0 runs the engine: the decode loop, the drafter and the noise. The other ranks, the followers, only run the passes that
rank 0 orders. To the decode loop the split target is a model like any other (`split_model`). `hosts` describes the machines,
`companions` starts and ends their processes. MLX itself transports the data (ring over TCP, JACCL over Thunderbolt).
"""
