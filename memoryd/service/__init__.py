"""The daemon as a user service of systemd or launchd."""
