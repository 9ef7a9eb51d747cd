"""The subscription language: parse (grammar, and sqlglot for the rest), rewrite (ordered RULES), and back to SQL."""
