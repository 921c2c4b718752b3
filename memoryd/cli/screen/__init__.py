"""What only a terminal gets: single keys, live views, rendered Markdown. Imported late."""
