"""The one pipeline that drives an action from request to settlement."""
