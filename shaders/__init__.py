"""The Metal kernel's source, its integer noise table and the script that makes the table."""
