"""Records that nobody can change, swap or roll back unseen: envelopes, anchors, fences, files."""
