"""`memoryd hook`: what a client runs at an event, such as a new prompt. Standard library only."""
