"""What every room uses: errors, files, statistics, randomness, processes."""
