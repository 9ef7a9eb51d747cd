"""The Matcher: segments of subscriptions, snapshots of segments, and everything a user does with them."""
