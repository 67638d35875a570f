"""Amends: actions that cannot be taken back, with a plan, an approval, and one claim each."""
