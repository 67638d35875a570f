"""What a worker process can reach: described from its grants, enforced by bubblewrap, probed."""
