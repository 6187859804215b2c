"""What a batch's rows are: the query's answer, and each row good, refused, a duplicate or let go."""
