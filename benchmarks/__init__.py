"""What an increment costs, as ratios against a plain notebook doing the same work in the same run."""
