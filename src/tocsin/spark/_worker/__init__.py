"""What runs in a worker: functions over Arrow batches, without a JVM."""
