"""Recorded outputs of second implementations, so that tests need neither PyTorch nor the network, and how they were made."""
