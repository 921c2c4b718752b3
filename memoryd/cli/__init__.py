"""The command line: one module a group of verbs, each verb one call on the daemon."""
