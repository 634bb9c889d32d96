"""A target split over several processes, usually one on each machine, by `mx.distributed` and mlx-lm's own `shard` or pipeline.

Rank 0 holds the engine: the decode loop, the drafter and the noise. The other ranks, the followers, know nothing of answers: they
run the passes that rank 0 tells them to run (`orders`). To the decode loop the split target is a model like any other
(`split_model`). Which machines there are is in `hosts`, how their processes start and end in `companions`; what is sent, and how,
is MLX's own (ring over TCP, JACCL over Thunderbolt).
"""
