"""Engine, store and models put together: only they and the daemon know all layers."""
