"""Answers of second implementations, kept so that the tests need neither PyTorch nor the network, and how they were made."""
