"""Campaigns that look for failures: `python -m fuzz.models --cases 10000`, or `make fuzz`."""
