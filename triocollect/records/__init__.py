"""Reading back what runs wrote: whole lines, torn tails, damage in the middle."""
