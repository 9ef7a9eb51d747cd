"""Boolean expressions that are not multiplied into conjunctions: filed under a cover, verified as flat code."""
