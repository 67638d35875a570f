"""The host's durable account of worker operations and of the one compensation each may have."""
