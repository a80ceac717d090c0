"""Logs that are larger than memory: written once in shards by student, and learned from a few shards at a time."""
