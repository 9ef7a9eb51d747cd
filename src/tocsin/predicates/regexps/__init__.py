"""Regular expressions: the patterns that cover them, and RE2."""
