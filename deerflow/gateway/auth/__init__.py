"""Who is calling, and what keeps others out."""
