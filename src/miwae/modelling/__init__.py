"""The model behind a table: built from its schema, fitted to its arrays, asked for imputations."""
