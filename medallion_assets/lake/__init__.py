"""The state of a table in the lake: paths, versions, positions and checkpoints, and the writer's lease."""
