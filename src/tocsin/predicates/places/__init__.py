"""within_distance and within_polygon."""
