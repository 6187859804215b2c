"""Delta tables as a store: what their logs say, how a batch is committed once, who may write."""
