"""What the conformance suite compares with: papers' formulas, and other libraries' positional encodings."""
