"""The compiled loops of XPath."""
