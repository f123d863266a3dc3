"""The micro lineage: a tiny thinking model, trained from nothing on a procedural world, and the recipe that trains
it."""
