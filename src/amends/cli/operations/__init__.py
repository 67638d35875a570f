"""Commands over a store's file: proofs, copies, upkeep. Each module is light until it is run.

They need no app, and nobody is asked who they are: whoever may read or write the file may do this.
"""
