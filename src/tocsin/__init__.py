"""Match events against millions of standing subscriptions, exactly and fast, in process or on Spark."""
