"""The trusted host: workflows, their verifiers, and the channel to a worker."""
