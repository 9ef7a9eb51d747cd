"""Files of subscriptions, events and matches, on this machine."""
