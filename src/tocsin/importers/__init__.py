"""Subscriptions from other systems: what they mean, as conditions, and what has no exact equivalent."""
