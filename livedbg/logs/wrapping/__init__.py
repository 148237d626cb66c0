"""Taking off what launchers, containers and collectors of logs put around each line."""
