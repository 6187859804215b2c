"""What was refused: its entries, how they change, and rows that were mended or cannot be taken."""
