"""A trained model: in memory, at work, and on disk."""
