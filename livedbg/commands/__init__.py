"""What commands share: sessions, signals, exit codes, messages on standard error. Commands of systems import it too."""
