"""The weight algebra: recipes over checkpoints, masks, and working them out.

`recipe` imports no torch; the rest does.
"""
