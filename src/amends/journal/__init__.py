"""The worker's durable account of what it was asked to do, and of what came of it."""
