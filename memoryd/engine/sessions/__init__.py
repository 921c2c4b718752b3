"""What outlives a session: notes and their names, records, working memory; and recall."""
