"""Delivery of matches to subscribers: who gets a match, what is a repetition, when it may be told.

`addresses.py` and `policy.py` are pure and serve Spark's `deliver` and the server alike; `inboxes.py` is the server's
durable store, `webhook.py` what goes over the wire.
"""
