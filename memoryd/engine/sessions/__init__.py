"""What outlives a session: notes and their names."""
