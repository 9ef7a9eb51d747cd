"""Which subscriptions are the best of an event?"""
