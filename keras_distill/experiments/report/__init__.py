"""What finished cells say: numbers, words, tables, pictures, cards."""
