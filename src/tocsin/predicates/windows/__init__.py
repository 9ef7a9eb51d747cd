"""has_words and has_phrase."""
