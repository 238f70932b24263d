"""The Jobs.* RPCs: their table, client, views and errors. Importable without the daemon."""
