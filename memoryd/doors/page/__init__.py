"""The page: what a person sees of the memories in a browser, and how the browser is let in."""
