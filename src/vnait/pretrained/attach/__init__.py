"""Another positional method in a pretrained model: `attach`, `detach`, `audit`, adapters."""
