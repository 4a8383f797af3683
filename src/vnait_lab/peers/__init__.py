"""Other libraries' positional encodings, for the conformance suite."""
