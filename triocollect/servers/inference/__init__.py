"""The scripted inference worker: a model without weights. The same request always gets the same answer."""
