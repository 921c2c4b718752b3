"""A search: a pipeline of steps from a query to a page of results."""
