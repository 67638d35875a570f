"""The vocabulary every room shares: ids, enumerations, records, limits, errors."""
