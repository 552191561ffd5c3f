"""The console, served beside the API: its files, and sessions by which browsers use the API with a user's token."""
