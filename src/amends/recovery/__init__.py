"""What is due: expired leases, reconciliation, and plans and approvals that ran out."""
