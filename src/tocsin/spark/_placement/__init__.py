"""How an index reaches the workers, and how long it is kept there."""
