"""Data, small models and measures that more than one study uses."""
