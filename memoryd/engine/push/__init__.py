"""What hooks put into a prompt unasked, and what they take in."""
