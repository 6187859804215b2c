"""How a micro-batch reaches its table: each once, however often it is replayed."""
