"""What is due: lapsed leases, unknown outcomes, expired plans and approvals. Never a retry."""
