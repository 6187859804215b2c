"""The rows of a batch: the query's result, and each row good, refused, duplicate or dropped."""
