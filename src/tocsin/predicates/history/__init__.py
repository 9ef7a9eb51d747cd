"""Predicates that compare a new event with the events before it."""
