"""The training loop, and what it asks of whatever learns."""
