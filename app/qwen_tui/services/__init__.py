"""Everything that touches processes, files and sockets; yields frozen snapshots, never widgets."""
