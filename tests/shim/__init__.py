"""Runs the Metal kernel's own source on a machine without Metal: MLX writes the signature, a C++ compiler does the rest."""
