"""A trace played as it was made: the player, which knows nothing of Qt, and its controls."""
