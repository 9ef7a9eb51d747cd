"""array_contains."""
