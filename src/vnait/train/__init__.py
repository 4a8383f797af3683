"""Training: a `Run`, texts and labels in, a classifier with its `Record` out; its folder, its answers."""
