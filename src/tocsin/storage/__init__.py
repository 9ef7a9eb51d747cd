"""File formats: named arrays in one memory-mapped, checksummed file, and the snapshots that list such files."""
