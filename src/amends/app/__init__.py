"""What users import: capabilities from plain functions, and `Amends` itself. No rule lives here."""
