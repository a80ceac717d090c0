"""A model at work for a platform: a durable store of answers, a service over it, and its page."""
