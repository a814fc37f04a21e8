"""The settings, one small file a choice; installed as ``xmc.conf``."""
