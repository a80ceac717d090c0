"""What runs left on disk, and all that is computed from it."""
