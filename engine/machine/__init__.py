"""The machine: MLX's device, import and BLAS, NVIDIA's driver, macOS, versions and hardware.

Not here: models and files on the machine (`engine.files`), and the cost of rounds on it (`engine.decode.policy`).
"""
