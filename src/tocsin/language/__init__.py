"""The subscription language: parse (sqlglot, cached by shape), rewrite (ordered RULES), and back to SQL."""
