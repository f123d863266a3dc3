"""The reference tasks. They use the public names of `clbench` and are found through its entry points, as anyone's
are."""
