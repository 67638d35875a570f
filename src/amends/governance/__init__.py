"""Who may do what, who must agree, and which key stands for which intent: pure decisions.

Nothing here reads a clock or a store; documents and times are arguments.
"""
