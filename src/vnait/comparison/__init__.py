"""Several methods on one labelled file: the plan, the comparison, and where its runs are computed."""
