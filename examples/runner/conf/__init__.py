"""The Hydra configuration, as data; this file makes the folder one that Hydra finds."""
