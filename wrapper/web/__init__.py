"""What every HTTP route shares: reading requests, bounds, lanes, errors, streams."""
