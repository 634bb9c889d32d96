"""What Draftlight runs on: MLX's device, import and BLAS, NVIDIA's driver, macOS, versions and hardware.

Does not live here: models and files on the machine (`engine.files`), and what rounds cost on it (`engine.decode.policy`).
"""
