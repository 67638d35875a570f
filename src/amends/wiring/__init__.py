"""The composition root: the only room that names concrete drivers. It decides nothing."""
