"""What is in the air: the gate, and the ledger of rows in flight."""
