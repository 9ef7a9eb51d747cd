"""What a value, a condition, a predicate, an event and a match are."""
