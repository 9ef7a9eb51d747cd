"""How an index gets to a worker, and how long it stays there."""
